"""Tasks with several outputs on real Delta: all of a T or none, whatever happens in between."""

from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.runtime.log import fault_points as faults
from tests.crash.test_faults import HALFWAY
from tests.helpers.opened import check_rows
from tests.helpers.sample_warehouse import vacuum
from tests.helpers.table_folder import folder, log, transaction

# The first output is made from what the second one held before T.
SET_UP = """
CREATE TABLE feed (k INT, v INT);
INSERT INTO feed VALUES (1, 1), (2, 1);
CREATE CONTINUAL TASK ledger OUTPUTS (replaced (k INT, v INT), newest (k INT, v INT DEFAULT 0))
    ON INPUT feed AS (
    INSERT INTO replaced SELECT * FROM newest WHERE k IN (SELECT k FROM feed);
    DELETE FROM newest WHERE k IN (SELECT k FROM feed);
    INSERT INTO newest SELECT k, max(v) FROM feed GROUP BY k
)"""


class Stop(BaseException):
    """Stands for the end of a process, in this one."""


def _stored(con: Connection, query: str, *expected: tuple[object, ...]) -> None:
    con.execute("SET isolation = 'serializable'")
    check_rows(con, query, *expected)
    con.execute("RESET isolation")


def _uppers(con: Connection, name: str) -> list[int]:
    return [u for c in log(folder(con, name)) if (u := transaction(c)) is not None]


def test_all_or_none(connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the commits nobody sees the T; then another process brings it up, once."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    con.execute(
        "CREATE MATERIALIZED VIEW both AS SELECT 'r' AS o, k, v FROM replaced"
        " UNION ALL SELECT 'n', k, v FROM newest"
    )
    check_rows(con, "SELECT * FROM both", ("n", 1, 1), ("n", 2, 1))
    con.execute("INSERT INTO feed VALUES (2, 2), (3, 2)")

    def stop(name: str) -> None:
        if name == HALFWAY:
            raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(faults, "hooks", [stop])
        with pytest.raises(Stop):
            con.execute("SELECT * FROM newest")
    *_, ahead = _uppers(con, "newest")
    assert ahead > _uppers(con, "replaced")[-1]
    for one in (con, other):
        _stored(one, "SELECT * FROM newest", (1, 1), (2, 1))
        _stored(
            one,
            "SELECT r.k, n.k FROM replaced r FULL JOIN newest n USING (k)",
            (None, 1),
            (None, 2),
        )
        _stored(one, "SELECT * FROM both", ("n", 1, 1), ("n", 2, 1))
    # What newest held before the T is still needed, whatever is asked for.
    other.execute("MAINTAIN ALL RETAIN '0 seconds'")
    shown = other.execute("SHOW RETENTION newest").fetchall()
    assert min(row[4] for row in shown) < max(row[4] for row in shown)
    check_rows(other, "SELECT * FROM replaced", (2, 1))
    check_rows(other, "SELECT * FROM newest", (1, 1), (2, 2), (3, 2))
    check_rows(con, "SELECT * FROM both", ("r", 2, 1), ("n", 1, 1), ("n", 2, 2), ("n", 3, 2))
    for name in ("replaced", "newest"):
        assert _uppers(con, name) == sorted(set(_uppers(con, name))), "each T once, in order"
        assert _uppers(con, name)[-1] == ahead
        vacuum(con, folder(con, name))
