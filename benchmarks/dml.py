"""INSERT, UPDATE, DELETE and MERGE of one row, by ctsql and by Spark on an equal table, in turns.

    python -m benchmarks.dml --rounds 9

Both tables have the properties that CREATE TABLE gives, the same rows in the same number of files,
and get the same statements in the same session. Seconds are medians: read them as ratios of one
run. Jobs and commits are counted.
"""

import argparse
import tempfile
from urllib.parse import unquote

import ctsql
from benchmarks.measures import Series, table
from ctsql.runtime.spark.session import active

WARM_UP_ROUNDS = 2
STATEMENTS = {
    "INSERT": "INSERT INTO {t} VALUES (-{k} - 1, 1, 'y')",
    "UPDATE": "UPDATE {t} SET v = v + 1 WHERE k = {k}",
    "DELETE": "DELETE FROM {t} WHERE k = {k}",
    "MERGE": "MERGE INTO {t} AS t USING (SELECT CAST({k} AS BIGINT) AS k, 1L AS v) AS s "
    "ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v "
    "WHEN NOT MATCHED THEN INSERT (k, v, s) VALUES (s.k, s.v, '')",
}


def measure(rows: int, files: int, rounds: int, verbs: list[str]) -> None:
    """Run each statement on both tables and print what it costs."""
    with tempfile.TemporaryDirectory() as folder:
        con = ctsql.connect(folder)
        for name in ("ours", "sparks"):
            con.execute(f"CREATE TABLE {name} (k BIGINT, v BIGINT, s STRING)")
            for part in range(files):
                start, stop = part * rows // files, (part + 1) * rows // files
                con.execute(
                    f"INSERT INTO {name} SELECT id, id, 'x' FROM range({start}, {stop}, 1, 1)"
                )
        engine = con._engine
        assert engine is not None  # it has run statements
        places = {}
        for name in ("ours", "sparks"):
            details = con.execute(f"DESCRIBE EXTENDED {name}").fetchall()
            (place,) = [str(value) for key, value, *_ in details if key == "# location"]
            places[name] = unquote(place.removeprefix("file:"))
        session, target = engine.session, f"delta.`{places['sparks']}`"
        for verb in verbs:
            text = STATEMENTS[verb]
            ours = Series(session, "ctsql", [places["ours"]])
            sparks = Series(session, "Spark's own", [places["sparks"]])
            for number in range(WARM_UP_ROUNDS + rounds):
                key = (7919 * number + len(verb)) % rows
                here = text.format(t="ours", k=key)
                there = text.format(t=target, k=key)
                ours.measure(lambda here=here: con.execute(here))  # type: ignore[misc]
                with active(session):
                    sparks.measure(lambda there=there: session.sql(there).collect())  # type: ignore[misc]
            for series in (ours, sparks):
                del series.costs[:WARM_UP_ROUNDS]
            table(f"{verb} of one row of {rows:,} in {files} files", [ours, sparks])
        con.close()


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=STATEMENTS, help="one of the statements")
    options = parser.parse_args()
    measure(
        options.rows,
        options.files,
        options.rounds,
        [options.only] if options.only else [*STATEMENTS],
    )


if __name__ == "__main__":
    main()
