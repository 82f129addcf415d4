"""Failures as rows: what is open, resolved or skipped, by the commits of an output; no Spark."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.items import ObjectKind
from ctsql.runtime.log.failures import Failure
from ctsql.runtime.monitoring.failures import failures, open_failures
from ctsql.runtime.warehouse.times.timeline import TaskState
from tests.helpers.items import an_item, reading
from tests.unit.runtime.monitoring.test_refreshes import Log, made, reader_of

TEXT = "CREATE CONTINUAL TASK m\n  ON INPUT t AS (INSERT INTO m SELECT 1 / 0 FROM t)"
READS = (reading("t"),)
PLACE = (TEXT.index("1 / 0"), TEXT.index("1 / 0") + 5)


def _log(*texts: str) -> Log:
    """Commits at 1000, 2000, ..: ``upper``, ``failed t``, ``skip t upper``, ``held t upper``."""
    commits = []
    for version, text in enumerate(texts):
        kind, *numbers = text.split()
        given = [int(n) for n in numbers]
        at, record = 1_000 * (version + 1), []
        said: dict[str, object] = {}
        if kind in ("failed", "held"):
            failure = Failure(time=given[0], condition="DATA_ERROR", reason=text, place=PLACE)
            domain = {"domain": "ctsql.failure", "configuration": failure.to_json()}
            record = [{"domainMetadata": {**domain, "removed": False}}]
        if kind == "skip":
            said = {"skipped": [given[0]], "reason": text, "condition": "DATA_ERROR"}
        upper = None if kind in ("failed", "compacted") else given[-1]
        commits.append(made(version, at, upper, said, *record))
    return Log(commits)


def _rows(
    log: Log, kind: ObjectKind, *, only_open: bool = False, since_ms: int = 0
) -> list[tuple[int, int, str, int | None]]:
    item = an_item(kind, "m", definition=TEXT, reads=READS)
    reader, found = reader_of(item, m=log), []
    rows = (
        open_failures(reader, [item]) if only_open else failures(reader, [item], since_ms=since_ms)
    )
    for row in rows:
        ended = None if row.ended_at is None else round(row.ended_at.timestamp())
        assert (row.what_to_do is None) == (row.state != "open")
        assert row.condition == "DATA_ERROR"
        found.append((row.t, round(row.at.timestamp()), row.state, ended))
    return found


CASES = [
    (("upper 5",), []),
    (("upper 5", "failed 7"), [(7, 2, "open", None)]),
    (("upper 5", "failed 7", "upper 8"), [(7, 2, "resolved", 3)]),
    (("upper 5", "failed 7", "skip 7 8"), [(7, 2, "skipped", 3)]),
    (("upper 5", "skip 7 8", "upper 9"), [(7, 2, "skipped", 2)]),
    (("skip 7 8",), [(7, 1, "skipped", 1)]),
    (("skip 3 4", "failed 7", "skip 7 8"), [(7, 2, "skipped", 3), (3, 1, "skipped", 1)]),
    (("failed 7", "failed 7"), [(7, 2, "open", None)]),
    (("failed 7", "failed 7", "skip 7 8"), [(7, 2, "skipped", 3)]),
    (("held 7 8", "compacted"), [(7, 1, "open", None)]),
    (("held 7 8", "held 9 10"), [(9, 2, "open", None), (7, 1, "resolved", 2)]),
    (("failed 3", "upper 8", "failed 9"), [(9, 3, "open", None), (3, 1, "resolved", 2)]),
    (("failed 3", "upper 8"), [(3, 1, "resolved", 2)]),
    (("upper 8", "failed 12", "compacted"), [(12, 2, "open", None)]),
    (("upper 8", "failed 9", "skip 9 10"), [(9, 2, "skipped", 3)]),
    (("upper 8", "failed 9", "upper 10"), [(9, 2, "resolved", 3)]),
]
SINCE = [(1_000, [9, 3]), (1_001, [9]), (3_000, [9]), (3_001, [])]


@pytest.mark.parametrize("kind", [ObjectKind.CONTINUAL_TASK, ObjectKind.MATERIALIZED_VIEW])
@pytest.mark.parametrize(("texts", "expected"), CASES)
def test_a_failure_is_open_until_the_upper_passes_it(
    texts: tuple[str, ...], expected: list[tuple[int, int, str, int | None]], kind: ObjectKind
) -> None:
    """Each T is one row, the newest first, by its last attempt, with what ended it."""
    assert _rows(_log(*texts), kind) == expected
    is_open = [row for row in expected if row[2] == "open"]
    assert _rows(_log(*texts), kind, only_open=True) == is_open


@pytest.mark.parametrize(("since_ms", "times"), SINCE)
def test_failures_since_an_instant(since_ms: int, times: list[int]) -> None:
    """Only those that were recorded since then, although what ended one is later."""
    log = _log("failed 3", "upper 8", "failed 9")
    found = _rows(log, ObjectKind.CONTINUAL_TASK, since_ms=since_ms)
    assert [time for time, *_ in found] == times


def test_what_is_open_costs_one_commit() -> None:
    log = _log("failed 3", *(f"upper {n}" for n in range(4, 500)), "failed 700")
    found = _rows(log, ObjectKind.CONTINUAL_TASK, only_open=True)
    assert found == [(700, 498, "open", None)]
    assert len(log.read) == 1


def test_a_row_has_the_place_in_the_definition() -> None:
    item = an_item(ObjectKind.CONTINUAL_TASK, "m", definition=TEXT, reads=READS)
    log = _log("failed 7")
    (row,) = failures(reader_of(item, m=log), [item])
    assert (row.line, row.condition, row.message) == (2, "DATA_ERROR", "failed 7")
    assert TEXT.splitlines()[1][(row.column or 0) - 1 :].startswith("1 / 0")
    assert json.loads(json.dumps(row.what_to_do)).count("RETRY") == 1


@pytest.mark.parametrize(
    ("kind", "revisions", "lines"),
    [
        (ObjectKind.CONTINUAL_TASK, (), [2, 2]),
        (ObjectKind.CONTINUAL_TASK, ((7, 1),), [2, None]),  # it was given for this T
        (ObjectKind.CONTINUAL_TASK, ((6, 1),), [2, 2]),
        (ObjectKind.MATERIALIZED_VIEW, (), [2, 2]),
        (ObjectKind.MATERIALIZED_VIEW, ((7, 1),), [2, None]),
    ],
)
def test_a_place_is_in_the_definition_that_failed(
    kind: ObjectKind, revisions: tuple[tuple[int, int], ...], lines: list[int | None]
) -> None:
    """In another one there is something else at that place."""
    item = an_item(kind, "m", definition=TEXT, reads=READS, revision=len(revisions))
    log, state = _log("failed 7", "upper 8", "failed 9"), TaskState(revisions)
    relations: Any = SimpleNamespace(lead=lambda i: i, table=lambda _: log, current=lambda i: i)
    timeline = SimpleNamespace(task=lambda _: state)
    reader: Any = SimpleNamespace(relations=relations, timeline=timeline)
    assert [row.line for row in failures(reader, [item])] == lines
