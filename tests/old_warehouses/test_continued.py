"""A warehouse that an older program wrote is opened, and everything in it goes on where it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.runtime.log import clock
from tests.helpers.old_warehouse import unpack
from tests.scenarios.runner import assert_rows, expect_error

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
FAILED_AT = 1795384092530
"""When ``ratios`` failed, as the older program's status said."""

TOLD = [
    {((1, 10.0), -1), ((1, 12.0), 1), ((3, 30.0), 1)},
    {((2, 21.0), -1), ((2, 22.0), 1)},
    {((4, 0.0), 1)},
    {((2, 22.0), -1), ((2, 28.0), 1), ((5, 5.0), 1)},
    {((3, 30.0), -1)},
]
"""The changes of ``averages`` that the reader ``nightly`` was not told yet, by T."""
LOW = [(1, 10), (1, 14), (4, 0), (5, 5)]
HIGH = [(2, 20), (2, 22), (3, 30), (2, 24), (2, 40)]
RATIOS = [(1, 10), (2, 5), (2, 4), (1, 7), (3, 3), (2, 4), (2, 2), (5, 20)]
"""Without the T at which the task failed."""
FOUND: dict[str, list[tuple[Any, ...]]] = {
    "feed": [(1, 10), (1, 14), (2, 20), (2, 24), (2, 40), (4, 0), (5, 5)],
    "latest": [(1, 14), (2, 40), (3, 30), (4, 0), (5, 5)],
    "low": LOW,
    "high": HIGH,
    "windows": [(3, 52), (5, 83)],
    "averages": [(1, 12.0), (2, 28.0), (4, 0.0), (5, 5.0)],
    "levels": [(0, 2.5), (1, 12.0), (2, 28.0)],
    "above": [(2, 28.0)],
    "counted": [(7,)],
}
"""What the objects hold, with the changes that the older program left unread."""
CONTINUED = {
    **FOUND,
    "latest": [(1, 15), (2, 40), (3, 30), (4, 0), (5, 5), (6, 60)],
    "low": [*LOW, (1, 15)],
    "high": [*HIGH, (6, 60)],
    "feed": [*FOUND["feed"], (1, 15), (6, 60)],
    "averages": [(1, 13.0), (2, 28.0), (4, 0.0), (5, 5.0), (6, 60.0)],
    "levels": [(0, 2.5), (1, 13.0), (2, 28.0), (6, 60.0)],
    "above": [(2, 28.0), (6, 60.0)],
    "ratios": [*RATIOS, (1, 6), (6, 1)],
}
"""The same after the INSERT of this program, before time has passed."""


def _check(con: Connection, expected: dict[str, list[tuple[Any, ...]]]) -> None:
    """All objects in one query: they are brought up together, and it is one Spark job."""
    each = (f"SELECT '{o}', CAST(array(*) AS ARRAY<DOUBLE>) FROM {o}" for o in expected)
    found = [(str(o), *row) for o, row in con.execute(" UNION ALL ".join(each)).fetchall()]
    assert_rows(found, [(o, *row) for o, rows in expected.items() for row in rows], "all objects")


def _verify(con: Connection) -> None:
    for view in ("averages", "levels"):
        assert con.execute(f"VERIFY {view}").fetchall() == [], view


def _told(con: Connection, text: str) -> dict[int, set[tuple[Any, int]]]:
    """What SUBSCRIBE tells, by T."""
    told: dict[int, set[tuple[Any, int]]] = {}
    for time, diff, *row in con.execute(f"SUBSCRIBE TO {text}").fetchall():
        told.setdefault(time, set()).add((tuple(row), diff))
    return told


def _check_nothing_has_changed_by_opening(con: Connection) -> None:
    """Status, comments and the failed task's T, before anything is brought up."""
    status = con.status()
    found = {row[2]: dict(zip(status.columns, row, strict=True)) for row in status.fetchall()}
    assert {name: row["state"] for name, row in found.items()} == {
        "ratios": "failed",
        **dict.fromkeys(("latest", "sort_feed", "windows"), "behind"),
        **dict.fromkeys(("averages", "levels", "counted"), "behind"),
    }
    ratios = found["ratios"]
    assert (ratios["error_condition"], ratios["error_t"]) == ("TASK_FAILED", FAILED_AT)
    fed = _told(con, "feed FROM 0 UP TO NOW")
    assert ((4, 0), 1) in fed[FAILED_AT]
    refused = expect_error(con, "SELECT * FROM ratios", "TASK_FAILED")
    assert refused.given["time"] == FAILED_AT
    latest = con.execute(f"SELECT * FROM latest AS OF {FAILED_AT}").fetchall()
    assert_rows(latest, [(1, 14), (2, 24), (3, 30), (4, 0)], "latest when ratios failed")
    shown = con.execute("SHOW OBJECTS")
    comments = {row["name"]: row["comment"] for row in _records(shown)}
    assert comments["feed"] == "one row a reading"
    assert comments["levels"] == "a view over a view"
    assert ("v", "int", "", "what was read") in con.execute("DESCRIBE feed").fetchall()


def _records(result: Any) -> list[dict[str, Any]]:
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


@pytest.mark.parametrize("program", ["037d757"])
def test_everything_goes_on(
    program: str,
    warehouse: Path,
    connect: Callable[[], Connection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was unread arrives once, a new change flows through all, and definitions change."""
    soonest = unpack(program, warehouse) + HOUR_MS
    wall, ahead = clock.now_ms, [0]
    monkeypatch.setattr(clock, "now_ms", lambda: max(wall(), soonest) + ahead[0])
    con = connect()
    _check_nothing_has_changed_by_opening(con)
    assert list(_told(con, "averages UP TO NOW AS 'nightly'").values()) == TOLD
    _check(con, FOUND)
    con.execute("ALTER CONTINUAL TASK ratios SKIP")

    con.execute("INSERT INTO feed VALUES (1, 15), (6, 60)")
    _check(con, CONTINUED)
    (how, *_) = con.execute("EXPLAIN ANALYZE averages").fetchone() or ("",)
    assert str(how).endswith(": state table"), "the stored groups are used, not made anew"
    assert list(_told(con, "averages UP TO NOW AS 'nightly'").values()) == [
        {((1, 12.0), -1), ((1, 13.0), 1), ((6, 60.0), 1)}
    ]
    ahead[0] = HOUR_MS
    con.execute("REFRESH MATERIALIZED VIEW counted")
    _check(con, {"windows": [(3, 52), (5, 83), (2, 75)], "counted": [(9,)]})

    _verify(con)
    con.execute("REFRESH MATERIALIZED VIEW averages FULL")
    con.execute("CREATE OR REPLACE VIEW above AS SELECT k, a FROM averages WHERE a > 30")
    con.execute("CREATE OR REPLACE MATERIALIZED VIEW levels AS SELECT max(a) AS most FROM averages")
    con.execute("DELETE FROM feed WHERE k = 6")
    _check(con, {"above": [], "levels": [(28.0,)], "averages": CONTINUED["averages"][:-1]})
