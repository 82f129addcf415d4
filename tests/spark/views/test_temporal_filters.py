"""Views that compare with the clock: rows come and go as time passes, each at a T of its own."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log import clock
from tests.conftest import TEST_MASTER
from tests.helpers.clock_ahead import Clock
from tests.helpers.opened import engine_of, item_of
from tests.scenarios.runner import expect_error

Rows = list[tuple[object, ...]]
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def _rows(con: Connection, query: str = "SELECT * FROM m") -> Rows:
    return sorted(con.execute(query).fetchall())


def _commits(con: Connection, name: str = "m") -> int:
    return engine_of(con).relations.table(item_of(con, name)).version()


def test_rows_leave_a_sliding_window(
    con: Connection, connect: Callable[[], Connection], ahead: Clock
) -> None:
    """A row is in a view of the last hour until the hour is over, for whoever looks."""
    con.execute("CREATE TABLE t (k INT, at TIMESTAMP)")
    con.execute("CREATE MATERIALIZED VIEW m AS SELECT k FROM t WHERE at > now() - INTERVAL 1 HOUR")
    con.execute("INSERT INTO t SELECT 1, now() - INTERVAL 50 MINUTES UNION ALL SELECT 2, now()")
    assert _rows(con) == [(1,), (2,)]
    before = con.now()
    commits = _commits(con)
    ahead.ahead = 9 * MINUTE
    assert _rows(con) == [(1,), (2,)]
    assert (con.now(), _commits(con)) == (before, commits)
    ahead.ahead = 11 * MINUTE
    with open_connection(con.warehouse, master=TEST_MASTER, read_only=True) as reader:
        assert _rows(reader) == [(2,)]
    assert _commits(con) == commits
    assert _rows(connect()) == [(2,)]
    assert _rows(con, f"SELECT * FROM m AS OF {before}") == [(1,), (2,)]
    ahead.ahead = HOUR + 10 * SECOND
    assert _rows(con) == []
    assert con.execute("VERIFY m").fetchall() == []


def test_a_service_lets_rows_go(con: Connection, ahead: Clock) -> None:
    """`ctsql run` writes a view when time changes it; what is stored is then read as it is."""
    con.execute("CREATE TABLE t (k INT, until TIMESTAMP)")
    con.execute("CREATE MATERIALIZED VIEW m AS SELECT k FROM t WHERE until >= now()")
    con.execute("INSERT INTO t SELECT 1, now() + INTERVAL 1 HOUR")
    con.run(once=True)
    con.execute("SET isolation = 'serializable'")
    assert _rows(con) == [(1,)]
    ahead.ahead = HOUR + 10 * SECOND
    con.run(once=True)
    assert _rows(con) == []
    con.execute("INSERT INTO t SELECT 2, now() + INTERVAL 2 HOURS")
    ahead.ahead = 5 * HOUR
    con.execute("REFRESH MATERIALIZED VIEW m")
    assert _rows(con) == [], "the refresh by hand was as of the table's change"


def test_a_refresh_schedule_rounds_up(con: Connection, ahead: Clock) -> None:
    """A view with REFRESH EVERY lets rows go at its refresh times only."""
    con.execute("CREATE TABLE t (k INT, until TIMESTAMP)")
    con.execute("INSERT INTO t SELECT 1, now() + INTERVAL 10 MINUTES")
    con.execute(
        "CREATE MATERIALIZED VIEW m WITH (REFRESH EVERY '1 hour') AS "
        "SELECT k FROM t WHERE until > now()"
    )
    assert _rows(con) == [(1,)]
    ahead.ahead = 30 * MINUTE
    assert _rows(con) == [(1,)]
    ahead.ahead = HOUR + SECOND
    assert _rows(con) == []


def test_the_query_may_fail_until_a_row_has_left(con: Connection, ahead: Clock) -> None:
    """Time heals a followed view as a change of its tables would."""
    con.execute("CREATE TABLE t (k INT, until TIMESTAMP)")
    con.execute(
        "CREATE MATERIALIZED VIEW m AS SELECT 1 DIV k AS q FROM t WHERE until > now();"
        "CREATE CONTINUAL TASK seen (q BIGINT) ON INPUT m AS (INSERT INTO seen SELECT q FROM m)"
    )
    con.execute(
        "INSERT INTO t SELECT 0, now() + INTERVAL 1 HOUR UNION ALL "
        "SELECT 1, now() + INTERVAL 2 HOURS"
    )
    with pytest.raises(CtsqlError, match="VIEW_FAILED"):
        _rows(con)
    ahead.ahead = HOUR + 10 * SECOND
    assert _rows(con) == [(1,)]


def test_a_view_that_is_behind_its_own_rows(con: Connection, ahead: Clock) -> None:
    """The newest T was bound for another view; then for one that could not be computed at it."""
    con.execute("CREATE TABLE t (k INT, since TIMESTAMP, until TIMESTAMP)")
    con.execute(
        "INSERT INTO t SELECT k, now() + make_dt_interval(0, a), now() + make_dt_interval(0, b) "
        "FROM VALUES (1, 0, 2), (2, 0, 4), (3, 0, 9), (0, 6, 7) AS v(k, a, b)"
    )
    con.execute(
        "CREATE MATERIALIZED VIEW first AS SELECT k FROM t WHERE until > now() AND k = 1;"
        "CREATE MATERIALIZED VIEW m AS SELECT 6 DIV k AS q FROM t "
        "WHERE since <= now() AND until > now();"
        "CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM m"
    )
    assert _rows(con, "SELECT * FROM counted") == [(3,)]
    ahead.ahead = 3 * HOUR
    assert _rows(con, "SELECT * FROM first") == []
    ahead.ahead = 5 * HOUR
    assert _rows(con, "SELECT * FROM counted") == [(1,)]
    ahead.ahead = 6 * HOUR + MINUTE
    expect_error(con, "SELECT * FROM m", "VIEW_FAILED")
    ahead.ahead = 8 * HOUR
    assert _rows(con) == [(2,)]


@pytest.mark.slow
def test_times_farther_than_any_clock(con: Connection, ahead: Clock) -> None:
    """Instants at the ends of what Spark can tell, and days beyond: rows stay, or never come."""
    con.execute("CREATE TABLE t (k INT, at TIMESTAMP, d DATE)")
    con.execute(
        "INSERT INTO t SELECT k, timestamp_micros(us), d FROM VALUES "
        "(1, 9223372036854775807, DATE '+300000-01-01'), "
        "(2, -9223372036854775808, DATE '-300000-01-01'), (3, NULL, NULL) AS v(k, us, d) "
        "UNION ALL SELECT 4, now() + INTERVAL 1 HOUR, date_add(current_date(), 1)"
    )
    given = "WITH (REFRESH POLICY = incremental)"
    wheres = ("at > now()", "at < now() + INTERVAL 2 HOURS", "d > current_date() - 1")
    for name, where in zip("abc", wheres, strict=True):
        con.execute(f"CREATE MATERIALIZED VIEW {name} {given} AS SELECT k, d FROM t WHERE {where}")
    con.execute(f"CREATE MATERIALIZED VIEW e {given} AS SELECT k, at FROM t WHERE {wheres[0]}")
    for days, wanted in ((0, ([1, 4], [2, 4], [1, 4], [1, 4])), (3, ([1], [2, 4], [1], [1]))):
        ahead.ahead = days * DAY
        found = [[k for (k,) in _rows(con, f"SELECT k FROM {name}")] for name in "abce"]
        assert tuple(found) == wanted, days
        con.execute("INSERT INTO t SELECT 9, NULL, NULL")


# ---- compared with a model


@dataclass(frozen=True)
class Row:
    """A row of the model; times in microseconds."""

    k: int
    n: int
    since: int
    until: int


VIEWS = {
    "live": "SELECT k, n FROM t WHERE now() >= since AND until > current_timestamp()",
    "sums": "SELECT n, count(*) AS c, sum(k) AS s FROM t "
    "WHERE until + INTERVAL 2 SECONDS >= now() GROUP BY n",
    "pairs": "SELECT t.k, u.x FROM t JOIN u ON t.n = u.n WHERE now() - INTERVAL 1 SECOND < until",
    "lasting": "SELECT n, max(k) AS m FROM t GROUP BY n HAVING max(until) > now()",
    "days": "SELECT k FROM (SELECT k, CAST(since AS DATE) AS d FROM t) "
    "WHERE d BETWEEN date_sub(current_date(), 1) AND current_date()",
}
PAIRS = ((0, 7), (1, 8), (1, 9))


def _live(rows: Iterable[Row], us: int) -> Rows:
    return [(r.k, r.n) for r in rows if r.since <= us < r.until]


def _expected(rows: list[Row], at: int) -> dict[str, Rows]:
    us = at * 1_000
    kept = [r for r in rows if r.until + 2_000_000 >= us]
    groups = {n: [r for r in rows if r.n == n] for n in {r.n for r in rows}}
    today = at // DAY
    sums = {n: [r.k for r in kept if r.n == n] for n in {r.n for r in kept}}
    return {
        "live": _live(rows, us),
        "sums": [(n, len(ks), sum(ks)) for n, ks in sums.items()],
        "pairs": [(r.k, x) for r in rows if us - 1_000_000 < r.until for n, x in PAIRS if n == r.n],
        "lasting": [
            (n, max(r.k for r in own))
            for n, own in groups.items()
            if max(r.until for r in own) > us
        ],
        "days": [(r.k,) for r in rows if today - 1 <= r.since // 1_000 // DAY <= today],
        "means": _means(_live(rows, us)),
    }


def _means(live: Rows) -> Rows:
    keys: dict[object, list[int]] = {}
    for k, n in live:
        keys.setdefault(n, []).append(int(str(k)))
    return [(n, sum(ks) / len(ks)) for n, ks in keys.items()]


class ModelWarehouse:
    """A warehouse and its model: the rows of the table from each T on."""

    def __init__(
        self, connect: Callable[[], Connection], seed: int, views: Mapping[str, str] = VIEWS
    ) -> None:
        self.connect = connect
        self.views = views
        self.now = clock.now_ms() + HOUR  # it stands still until it is moved
        self.con = connect()
        self.random = random.Random(seed)
        self.rows: list[Row] = []
        self.history: list[tuple[int, list[Row]]] = []
        self.next = 1

    def change(self) -> None:
        """Insert a row or two, or take one away, or move one."""
        kind = self.random.choice(("insert", "insert", "delete", "update"))
        if kind == "insert" or not self.rows:
            added = [self._new() for _ in range(self.random.randint(1, 3))]
            values = ", ".join(
                f"({r.k}, {r.n}, timestamp_micros({r.since}), timestamp_micros({r.until}))"
                for r in added
            )
            self.con.execute(f"INSERT INTO t VALUES {values}")
            self.rows = [*self.rows, *added]
        elif kind == "delete":
            gone = self.random.choice(self.rows)
            self.con.execute(f"DELETE FROM t WHERE k = {gone.k}")
            self.rows = [r for r in self.rows if r != gone]
        else:
            old, new = self.random.choice(self.rows), self._new()
            moved = Row(old.k, old.n, old.since, new.until)
            self.con.execute(
                f"UPDATE t SET until = timestamp_micros({new.until}) WHERE k = {old.k}"
            )
            self.rows = [moved if r == old else r for r in self.rows]
        engine = engine_of(self.con)
        (table,) = [i for i in engine.catalog if i.name.name == "t"]
        bound = engine.timeline.bindings_between(table.id, 0, engine.mint())
        self.history.append((bound[-1].time, self.rows))

    def _new(self) -> Row:
        """A row around the present: half of them on whole milliseconds."""
        draw, now = self.random, self.now * 1_000
        precise = draw.choice((0, draw.randint(1, 999)))
        since = now + draw.choice((-1, 1)) * draw.randint(0, 20 * SECOND) * 1_000 + precise
        made = Row(self.next, draw.randint(0, 2), since, since + draw.randint(0, 30_000_000))
        self.next += 1
        return made

    def check(self) -> None:
        """Read all views, as anybody."""
        if self.random.random() < 0.3:
            self.con = self.connect()
        self.compare(self.con)

    def compare(self, con: Connection) -> None:
        """All views as one connection sees them, at one T."""
        shown = (f"SELECT '{v}', CAST(array(*) AS ARRAY<DOUBLE>) FROM {v}" for v in self.views)
        found: dict[str, list[Any]] = {name: [] for name in self.views}
        for name, row in con.execute(" UNION ALL ".join(shown)).fetchall():
            found[str(name)].append(row)
        wanted = _expected(self.rows, max(con.now(), self.now))
        for name, rows in found.items():
            assert sorted(rows) == sorted(map(list, wanted[name])), name

    def create(self) -> None:
        """Make the tables, the views, and a task that writes down what it sees of ``live``."""
        values = ", ".join(map(str, PAIRS))
        self.con.execute(
            "CREATE TABLE t (k INT, n INT, since TIMESTAMP, until TIMESTAMP);"
            f"CREATE TABLE u (n INT, x INT); INSERT INTO u VALUES {values}"
        )
        for name, query in self.views.items():
            self.con.execute(
                f"CREATE MATERIALIZED VIEW {name} WITH (REFRESH POLICY = incremental) AS {query}"
            )
        self.con.execute(
            "CREATE CONTINUAL TASK seen (at TIMESTAMP, k INT, n INT, d BIGINT) ON INPUT live AS "
            "(INSERT INTO seen SELECT now(), k, n, diff FROM changes(live))"
        )

    def check_seen(self) -> None:
        """What the task has written down is what it was to see, each at its T."""
        found = _rows(self.con, "SELECT unix_millis(at), k, n, d FROM seen")
        assert Counter(found) == self.followed(self.con.now())

    def followed(self, until: int) -> Counter[tuple[object, ...]]:
        """What somebody who follows ``live`` is to see: T, row and diff."""
        expiries = {
            -(-us // 1_000) for _, rows in self.history for r in rows for us in (r.since, r.until)
        }
        times = sorted({t for t, _ in self.history} | expiries)
        seen: Counter[tuple[object, ...]] = Counter()
        before: Counter[tuple[object, ...]] = Counter()
        for time in times:
            if not self.history[0][0] <= time <= until:
                continue
            rows = next(rows for t, rows in reversed(self.history) if t <= time)
            now = Counter(_live(rows, time * 1_000))
            changed = Counter(now)
            changed.subtract(before)
            seen.update({(time, *row, diff): 1 for row, diff in changed.items() if diff})
            before = now
        return seen


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 4), *(pytest.param(n, 8, marks=pytest.mark.slow) for n in (1, 2))],
)
def test_like_a_model(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch, seed: int, rounds: int
) -> None:
    """Whatever is written, however time goes on, whoever looks: each row at its own T."""
    model = ModelWarehouse(connect, seed)
    monkeypatch.setattr(clock, "now_ms", lambda: model.now)
    model.create()
    for _ in range(rounds):
        model.change()
        model.now += model.random.choice((0, SECOND, 10 * SECOND, 10 * SECOND))
        if model.random.random() < 0.5:
            model.check()
    model.check()
    model.check_seen()


LEAVING = {
    "staying": "SELECT k, n, until FROM t WHERE n > 0 AND until > now() - INTERVAL 1 SECOND",
    "latest": "SELECT max(until) AS until, n FROM t GROUP BY n HAVING max(until) >= now()",
}
STORED_WHOLE = "DELETION VECTORS = false, "


def _staying(rows: Iterable[Row], us: int) -> Rows:
    return [(r.k, r.n, r.until) for r in rows if r.n > 0 and us < r.until + 1_000_000]


def _latest(rows: Iterable[Row], us: int) -> Rows:
    last = {n: max(r.until for r in rows if r.n == n) for n in {r.n for r in rows}}
    return [(until, n) for n, until in last.items() if until >= us]


def _check_due(model: ModelWarehouse) -> None:
    """When the last commit of ``staying`` says that a row leaves next."""
    (item,) = [i for i in engine_of(model.con).catalog if i.name.name == "staying"]
    table = engine_of(model.con).relations.table(item)
    said = table.commit_at(table.version()).metadata
    if "t" in said:  # else MAINTAIN was there
        held = _staying(model.rows, said["t"] * 1_000)
        expiries = (-(-(until + 1_000_000) // 1_000) for *_, until in held)
        assert said["due"] == min(expiries, default=None)


def _changes_seen(model: ModelWarehouse, start: int) -> Counter[tuple[object, ...]]:
    """What a task on ``staying`` is to see from a T on: each change, at its T."""
    expiries = {-(-(r.until + 1_000_000) // 1_000) for _, rows in model.history for r in rows}
    seen: Counter[tuple[object, ...]] = Counter()
    before: Counter[tuple[object, ...]] | None = None
    for time in sorted({start, *(t for t, _ in model.history), *expiries}):
        if start <= time <= model.con.now():
            rows = next(rows for t, rows in reversed(model.history) if t <= time)
            now = Counter(_staying(rows, time * 1_000))
            changed = Counter(now)
            changed.subtract(now if before is None else before)
            seen.update({(time, *row, diff): 1 for row, diff in changed.items() if diff})
            before = now
    return seen


@pytest.mark.parametrize(
    ("seed", "rounds", "whole_files"),
    [
        (3, 3, False),
        *(pytest.param(n, 5, n == 4, marks=pytest.mark.slow) for n in (3, 4, 5)),
    ],
)
def test_rows_that_only_leave(
    connect: Callable[[], Connection],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    rounds: int,
    whole_files: bool,
) -> None:
    """Where time does nothing but let rows go: with and without changes, restarts, compaction."""
    model = ModelWarehouse(connect, seed)
    monkeypatch.setattr(clock, "now_ms", lambda: model.now)
    model.con.execute("CREATE TABLE t (k INT, n INT, since TIMESTAMP, until TIMESTAMP)")
    model.change()
    for name, query in LEAVING.items():
        more = STORED_WHOLE if name == "staying" and whole_files else ""
        model.con.execute(
            f"CREATE MATERIALIZED VIEW {name} WITH ({more}REFRESH POLICY = incremental) AS {query}"
        )
    model.con.execute(
        "CREATE CONTINUAL TASK seen (at TIMESTAMP, k INT, n INT, until TIMESTAMP, d BIGINT) "
        "ON INPUT staying WITH (SNAPSHOT = false) AS "
        "(INSERT INTO seen SELECT now(), k, n, until, diff FROM changes(staying))"
    )
    begun = model.con.now()

    def check(con: Connection) -> None:
        found = [
            _rows(con, "SELECT k, n, unix_micros(until) FROM staying"),
            _rows(con, "SELECT unix_micros(until), n FROM latest"),
        ]
        us = max(con.now(), model.now) * 1_000
        assert found == [sorted(_staying(model.rows, us)), sorted(_latest(model.rows, us))]

    for turn in range(rounds):
        model.change()
        if model.random.random() < 0.3:
            check(model.con)
            _check_due(model)
        model.now += model.random.choice((SECOND, 5 * SECOND, 10 * SECOND))
        if turn == 2:
            model.con.execute("MAINTAIN staying; MAINTAIN latest")
        if turn % 2:
            commits = _commits(model.con, "staying"), _commits(model.con, "latest")
            with open_connection(model.con.warehouse, master=TEST_MASTER, read_only=True) as other:
                check(other)
            assert commits == (_commits(model.con, "staying"), _commits(model.con, "latest"))
            model.con = model.connect()
        check(model.con)
        _check_due(model)
        model.now += 8 * SECOND
        check(model.con)
        _check_due(model)
    model.now += 100 * SECOND  # all rows have left
    check(model.con)
    for name in LEAVING:
        assert model.con.execute(f"VERIFY {name}").fetchall() == []
    found = "SELECT unix_millis(at), k, n, unix_micros(until), d FROM seen"
    assert Counter(_rows(model.con, found)) == _changes_seen(model, begun)
