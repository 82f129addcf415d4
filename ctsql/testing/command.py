"""``ctsql test FOLDER``: runs the tests, writes what came of them."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ctsql.api import Connection
from ctsql.catalog.errors import error
from ctsql.folder import sql_files
from ctsql.testing.collecting import Suite, collect
from ctsql.testing.reporting import junit, outcome_lines, summary
from ctsql.testing.running import Outcome, run_case
from ctsql.testing.warehouses import Warehouses


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The tests that are to be run; ``left_out`` is the number of the others."""

    suite: Suite
    left_out: int = 0


def choose(folder: Path, part: str | None, variables: Mapping[str, str]) -> Chosen:
    """The tests of a folder that have a text in their names, or all.

    Raises:
        INVALID_USAGE: there is no folder or no such test in it. And what reading its files raises.
    """
    suite = collect(sql_files(folder, variables))
    chosen = suite if part is None else suite.select(part)
    if not chosen.cases:
        count = len(suite.cases)
        raise error(
            "INVALID_USAGE",
            message=f"there is no test in {folder}"
            + (f" that has {part} in its name" * bool(part)),
            detail=f"There are {count} others." if count else "",
        )
    return Chosen(suite=chosen, left_out=len(suite.cases) - len(chosen.cases))


def run_tests(
    connection: Connection, chosen: Chosen, tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Run tests one after another, in warehouses that go with them.

    Args:
        tell: called with each outcome as it is known.

    Raises:
        STATEMENT_CANCELLED: they were cancelled.
    """
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="ctsql-test-", ignore_cleanup_errors=True) as root:
        # Spark and the operating system may call it by different names; logs have this one.
        warehouses = Warehouses(connection, chosen.suite.folder, Path(root).resolve())
        try:
            for case in chosen.suite.cases:
                outcomes.append(run_case(case, chosen.suite.folder, warehouses))
                tell(outcomes[-1])
        finally:
            connection.close()  # before its warehouse goes
    return outcomes


def command(
    connection: Connection,
    chosen: Chosen,
    out: TextIO,
    *,
    pause: Callable[[], None],
    junit_file: Path | None = None,
) -> bool:
    """Run tests and write what came of them; returns whether all passed.

    Args:
        pause: called before something is written.
    """
    begun = time.monotonic()
    has_styles = out.isatty()

    def tell(outcome: Outcome) -> None:
        pause()
        for line in outcome_lines(outcome, has_styles=has_styles):
            out.write(f"{line}\n")
        out.flush()

    outcomes = run_tests(connection, chosen, tell)
    seconds = time.monotonic() - begun
    if junit_file is not None:
        junit_file.write_text(junit(outcomes, seconds), encoding="utf-8")
    out.write(f"{summary(outcomes, seconds, left_out=chosen.left_out)}\n")
    return all(o.passed for o in outcomes)
