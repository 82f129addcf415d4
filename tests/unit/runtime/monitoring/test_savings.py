"""What following saved: the estimate, and the rows of a table at its versions; no Spark."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.runtime.log.actions import Commit, parse_commit, roll_files
from ctsql.runtime.log.data_files import DataFile
from ctsql.runtime.monitoring.savings import RECOMPUTE, Step, savings, summed
from tests.unit.runtime.monitoring.test_history import Log, made

FOLLOWED = "incremental"


def step(strategy: str | None, seconds: float, rows: int | None, full: float | None = None) -> Step:
    return Step(
        t=5, strategy=strategy, seconds=seconds, rows_read=3, rows_there=rows, full_seconds=full
    )


CASES = [
    ([], 0, None, "no refresh"),
    # Twice the rows, twice the time; of fewer rows not less.
    ([step(RECOMPUTE, 2.0, 10_000), step(FOLLOWED, 0.5, 20_000)], 2.5, 6.0, "2.00 s for 10,000"),
    ([step(RECOMPUTE, 2.0, 10_000), step(FOLLOWED, 0.5, 5_000)], 2.5, 4.0, "scaled by rows"),
    # The recomputing of the most rows counts.
    ([step(RECOMPUTE, 9.0, 0), step(RECOMPUTE, 2.0, 10_000), step(FOLLOWED, 1.0, 10_000)],
     12.0, 13.0, "2.00 s for 10,000"),
    # Small tables: as the commits say it, not scaled.
    ([step(RECOMPUTE, 2.0, 9), step(FOLLOWED, 0.5, 20_000, full=1.5)], 2.5, 3.5, "at least"),
    ([step(FOLLOWED, 0.5, 20_000, full=1.5)], 0.5, 1.5, "at least"),
    ([step(FOLLOWED, 0.5, 20_000)], 0.5, None, "never recomputed"),
    # Without statistics nothing is scaled.
    ([step(RECOMPUTE, 2.0, None), step(FOLLOWED, 0.5, None, full=1.0)], 2.5, 3.0, "at least"),
    ([step(None, 0.5, 7)], 0.5, None, "rows only"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "seconds", "full", "how"), CASES)
def test_what_recomputing_would_have_taken(
    steps: list[Step], seconds: float, full: float | None, how: str
) -> None:
    found = summed("m", "materialized view", steps)
    assert (found.seconds, found.recomputing_seconds) == (seconds, full)
    assert found.saved_seconds == (None if full is None else full - seconds)
    assert how in found.estimate
    assert found.refreshes == len(steps)
    rows = [s.rows_there for s in steps]
    assert found.recomputing_rows == (None if None in rows else sum(r or 0 for r in rows))


class Table(Log):
    """A log that also lists the live files."""

    def files(self, version: int) -> dict[str, DataFile]:
        return roll_files({}, self.commits[: version + 1])


def _source(*counts: int) -> list[Commit]:
    """Commits that add a file with so many rows each; a negative count removes all."""
    commits, live = [], {}
    for version, count in enumerate(counts):
        actions: list[object] = [{"commitInfo": {"inCommitTimestamp": version}}]
        if count < 0:
            actions += [{"remove": {**file, "dataChange": True}} for file in live.values()]
            live.clear()
        else:
            stats = json.dumps({"numRecords": count})
            live[version] = {"path": f"f{version}", "size": 1, "dataChange": True, "stats": stats}
            actions.append({"add": live[version]})
        text = "\n".join(json.dumps(a) for a in actions)
        commits.append(parse_commit(version, text, modified_ms=0))
    return commits


def test_rows_are_those_of_the_versions_that_were_read() -> None:
    """A refresh is weighed by what its tables held at the versions that its commit names."""
    item = Item(id="m", kind=ObjectKind.MATERIALIZED_VIEW, name=Name("default", "m"), columns=())
    feed = Item(
        id="feed", kind=ObjectKind.TABLE, name=Name("default", "feed"), columns=(), location="feed"
    )
    tables = {"feed": Table(_source(10, 5, -1, 7))}
    work = {"ms": 500, "rows_read": 4}

    def refresh(version: int, at: int | None, **said: object) -> Commit:
        return made(version, version, version + 2, {"bindings": {"feed": at}, "work": work, **said})

    tables["m"] = Table(
        [
            refresh(0, None, strategy=RECOMPUTE),
            refresh(1, 0, strategy=FOLLOWED, costs={"full_ms": 1500}),
            refresh(2, 1, strategy=FOLLOWED, costs={"full_ms": 1500}),
            made(3, 3, 5, {"bindings": {"feed": 2}}),  # by an older version
            refresh(4, 3, strategy=FOLLOWED, costs={"full_ms": 1500}),
        ]
    )
    relations: Any = SimpleNamespace(lead=lambda i: i, table=lambda i: tables[i.id])
    reader: Any = SimpleNamespace(
        catalog=SimpleNamespace(items={"feed": feed}), relations=relations
    )
    (found,) = savings(reader, [item], None)
    assert (found.refreshes, found.recomputed, found.rows_read) == (4, 1, 16)
    assert found.recomputing_rows == 0 + 10 + 15 + 7
    assert (found.seconds, found.recomputing_seconds) == (2.0, 0.5 + 3 * 1.5)
    (late,) = savings(reader, [item], 3)
    assert (late.refreshes, late.recomputing_rows) == (2, 15 + 7)
