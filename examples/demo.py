"""``make demo``: the upsert and the audit-log recipe on real data, step by step.

Runs ``examples/upsert.sql`` and ``examples/audit_log.sql`` statement by statement in the warehouse
``./demo-warehouse`` and prints after every batch its T and the sizes of the outputs. Each run drops
the objects first, so a second demo shows the same.
"""

import argparse
import sys
import time
from pathlib import Path

from ctsql.api import Connection, connect
from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError, sentence_of
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import split
from ctsql.rendering.show import Format, write_result
from examples import load

EXAMPLES = Path(__file__).resolve().parent
SCRIPTS = ("upsert.sql", "audit_log.sql")
WAREHOUSE = "demo-warehouse"
NARROW = 96
OK, FAILED, INTERRUPTED = 0, 1, 130

GO_ON = """
Everything is in {warehouse}. Continue in the shell:

    {command} -w {warehouse}

and type, for example:

    INSERT INTO upsert.feed VALUES
        (12, 'N14228', TIMESTAMP '2013-12-31 23:00:00', 'UA', 1, 'EWR', 'SFO');
    SELECT * FROM upsert.aircraft WHERE tailnum = 'N14228';
    SHOW CONTINUAL TASKS;
"""


class Demo:
    """One run of the demo on an open connection."""

    def __init__(self, con: Connection) -> None:
        self.con = con

    def load(self) -> None:
        """Load the flights."""
        print("\nLoading the flights that left New York City in 2013 ...", end=" ", flush=True)
        start = time.monotonic()
        load.load(self.con)
        ((count,),) = self.con.execute("SELECT count(*) FROM flights").fetchall()
        print(f"{count:,} rows ({_seconds(start)})")

    def play(self, script: Path) -> None:
        """Run a script, statement by statement."""
        text = script.read_text(encoding="utf-8")
        title = text.splitlines()[0].lstrip("- ")
        print(f"\n{'=' * NARROW}\n{title}\n(examples/{script.name})\n{'=' * NARROW}")
        for span in split(Source(text, script.name)):
            self.step(span)

    def step(self, span: Span) -> None:
        """Run one statement and print its outcome."""
        body = span.text.strip()
        if "\n" not in body and len(body) >= NARROW:
            body = body.replace(" FROM ", "\nFROM ", 1)
        print(f"\n{body};", flush=True)
        start = time.monotonic()
        result = self.con.run_statement(span)
        if result.has_rows:
            write_result(result, Format.TABLE, sys.stdout, terminal=False)
            return
        if body.split(None, 1)[0].upper() != "INSERT":
            print(f"--> {result.status} ({_seconds(start)})")
            return
        self.con.run(once=True)
        t = self.con.now()
        print(f"--> {result.rowcount:,} rows in at T = {t} ({times.to_iso(t)}) ({_seconds(start)})")
        print(f"    now {', '.join(self._outputs())}")

    def _outputs(self) -> list[str]:
        """The row counts of the outputs in the current schema, as texts."""
        lines = []
        for item in self.con.known().objects:
            is_output = item.kind in ("continual task", "task output", "materialized view")
            if is_output and item.columns and item.schema == self.con.search_schema:
                ((count,),) = self.con.execute(f"SELECT count(*) FROM {item.name}").fetchall()
                lines.append(f"{item.name} has {count:,} row{'' if count == 1 else 's'}")
        return lines


def _seconds(start: float) -> str:
    return f"{time.monotonic() - start:.1f} s"


def _fail(*lines: str | None) -> int:
    sys.stdout.flush()
    sys.stderr.write("\n" + "\n".join(line for line in lines if line) + "\n")
    return FAILED


def run(warehouse: str) -> int:
    """Run the demo; returns the exit status."""
    try:
        load.data_folder()
        print("Starting Spark (the first time it fetches Delta Lake's JARs, about 20 MB) ...")
        with connect(warehouse) as con:
            con.start()
            demo = Demo(con)
            demo.load()
            for name in SCRIPTS:
                demo.play(EXAMPLES / name)
    except load.DataMissing as problem:
        return _fail(str(problem))
    except CtsqlError as problem:
        return _fail(sentence_of(problem), problem.detail, problem.hint)
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted.\n")
        return INTERRUPTED
    print(GO_ON.format(warehouse=warehouse, command=_command()))
    return OK


def _command() -> str:
    """The command ``ctsql`` of this environment, to be typed."""
    command = Path(sys.executable).parent / "ctsql"
    if not command.exists():
        return "ctsql"
    here = Path.cwd()
    return str(command.relative_to(here)) if command.is_relative_to(here) else str(command)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo", description="Two recipes, shown."
    )
    parser.add_argument("-w", "--warehouse", default=WAREHOUSE, help="default: %(default)s")
    return run(parser.parse_args().warehouse)


if __name__ == "__main__":
    sys.exit(main())
