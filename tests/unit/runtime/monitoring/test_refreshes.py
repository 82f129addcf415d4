"""Refreshes as rows: their order, what is read for them, and what a commit records; no Spark."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log.actions import Commit, parse_commit
from ctsql.runtime.monitoring.refreshes import refresh_of, refreshes
from tests.helpers.items import an_item

APP = "ctsql:m"
VIEW = an_item(ObjectKind.MATERIALIZED_VIEW, "m")
TASK = an_item(ObjectKind.CONTINUAL_TASK, "m")


def made(
    version: int,
    at: int,
    upper: int | None,
    metadata: dict[str, object] | None = None,
    *more: object,
    app: str = APP,
) -> Commit:
    info = {"inCommitTimestamp": at, "userMetadata": json.dumps(metadata or {})}
    actions: list[object] = [{"commitInfo": info}, *more]
    if upper is not None:
        actions.append({"txn": {"appId": app, "version": upper}})
    return parse_commit(version, "\n".join(json.dumps(a) for a in actions), modified_ms=0)


class Log:
    """The log of a table; the first versions may have been cleaned up."""

    location = "memory"

    def __init__(self, commits: Sequence[Commit], first: int = 0) -> None:
        self.commits, self.first = commits, first
        self.read: set[int] = set()

    @property
    def log_files(self) -> "Log":
        return self

    def may_mention(self, version: int, words: Sequence[str]) -> bool:
        commit = self.commits[version]
        return any(w in f"{commit.domains} {commit.user_metadata}" for w in words)

    def version(self) -> int:
        return len(self.commits) - 1

    def has(self, version: int) -> bool:
        return self.first <= version < len(self.commits)

    def find_commit(self, version: int) -> Commit | None:
        return self.commit_at(version) if self.has(version) else None

    def commit_at(self, version: int) -> Commit:
        assert self.has(version)
        self.read.add(version)
        return self.commits[version]


def reader_of(*items: Item, **logs: Log) -> Any:
    """A reader of a catalog with these items, each without further outputs."""

    class Items(list[Item]):
        def outputs_of(self, _: Item) -> list[Item]:
            return []

    relations = SimpleNamespace(lead=lambda i: i, table=lambda i: logs[i.id])
    return SimpleNamespace(catalog=Items(items), relations=relations)


def test_the_newest_refreshes_of_all_logs_come_first() -> None:
    """Logs are read backwards together, no further than rows are taken, to their oldest commit."""
    logs = {
        "m": Log([made(v, 2_000 * v, 2_000 * v) for v in range(10)], first=7),
        "n": Log([made(v, 3_000 * v, v + 1, app="ctsql:n") for v in range(6)]),
    }
    reader = reader_of(VIEW, replace(VIEW, id="n", name=Name("default", "n")), **logs)
    rows = refreshes(reader, reader.catalog)
    newest = [(r.object, r.version) for r in islice(rows, 3)]
    assert newest == [("m", 9), ("m", 8), ("n", 5)]
    assert (logs["m"].read, logs["n"].read) == ({9, 8, 7}, {5})
    assert [(r.object, r.version) for r in rows] == [
        ("m", 7), ("n", 4), ("n", 3), ("n", 2), ("n", 1), ("n", 0),
    ]  # fmt: skip


ADD = {"add": {"path": "a", "size": 10, "dataChange": True, "stats": '{"numRecords": 4}'}}
WORK = {"ms": 1500, "jobs": 2, "rows_read": 7, "bytes_read": 70}

ROWS = [
    (VIEW, 6, {"strategy": "incremental", "changed": ["t"], "work": WORK, "phases": {"compute": 9},
               "process": "h:1", "estimates": {"changed_rows": 3, "recompute_ms": 2500}},
     {"t": 5, "strategy": "incremental", "changed": ("t",), "changed_rows": 3,
      "expected_seconds": 2.5, "seconds": 1.5, "jobs": 2,
      "rows_inserted": 4, "bytes_written": 10, "phases": {"compute": 0.009}, "process": "h:1",
      "delay_seconds": 0.995, "at": datetime.fromtimestamp(1, UTC)}),
    (VIEW, 6, {"failed": True}, {"strategy": "the query failed"}),
    (VIEW, CLOSED, {"finished": True}, {"strategy": "finished", "t": None, "delay_seconds": None}),
    (VIEW, 6, {"lower": 2}, {"strategy": "unknown"}),
    (TASK, 6, {}, {"strategy": "run", "seconds": None, "jobs": None, "times": 1}),
    (TASK, 6, {"shared_by": [3, 5]}, {"strategy": "several runs", "times": 2}),
    (TASK, 6, {"skipped": [5], "reason": "x"}, {"strategy": "skipped", "detail": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("item", "upper", "metadata", "expected"), ROWS)
def test_a_commit_as_a_row(
    item: Item, upper: int, metadata: dict[str, object], expected: dict[str, object]
) -> None:
    """A row has what the commit says, and NULL for what an old commit does not say."""
    row = refresh_of(item, item, made(3, 1_000, upper, metadata, ADD))
    assert row is not None
    assert {name: getattr(row, name) for name in expected} == expected


def test_a_compaction_is_no_refresh() -> None:
    assert refresh_of(VIEW, VIEW, made(3, 1_000, None)) is None
