"""Where the rows of a task come from equals brute force, whatever statements its body has.

Each statement is a few lines of plain Python here, over rows that carry the stored rows that they
come from; the queries of :mod:`ctsql.planner.body_rows` are run by DuckDB.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import duckdb
import pytest
from hypothesis import given, settings, strategies

from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.catalog.schemas import Column
from ctsql.planner import nodes as lp
from ctsql.planner.body_rows import depends_on_passes, sent_again, written_rows
from ctsql.planner.ivm import PlainView, Relation, name_by
from ctsql.planner.ivm.algebra.reasons import Reason
from ctsql.planner.ivm.lineage import WANTED, trace, wanted_columns, whole_query
from ctsql.planner.syntax import rewrite
from tests.differential.plans_on_duckdb import connect_plainly, translated
from tests.unit.planner.binding.catalog_by_hand import FakeAnalyst, bind

pytestmark = pytest.mark.thorough

Place = tuple[str, int]
Row = tuple[int | None, str | None, frozenset[Place]]
Rows = list[Row]
KEYS = (0, 1, 2, None)
TEXTS = ("x", "y", "z")


class Body:
    """What a body sees and holds: ``came``, ``gone`` and the output's ``stored`` and ``made``."""

    def __init__(self, came: Rows, gone: Rows, stored: Rows) -> None:
        self.came, self.gone, self.stored = came, gone, stored
        self.made: Rows = []

    @property
    def held(self) -> Rows:
        """All rows of the output."""
        return self.stored + self.made

    def keep(self, kept: Callable[[Row], Row | None]) -> None:
        """Leave some rows in the output."""
        self.stored = [r for r in map(kept, self.stored) if r is not None]
        self.made = [r for r in map(kept, self.made) if r is not None]


def _places(rows: Iterable[Row]) -> frozenset[Place]:
    return frozenset().union(*(where for *_, where in rows))


def _of(rows: Rows, key: int | None) -> Rows:
    """The rows that equal a key; NULL equals none."""
    return [r for r in rows if key is not None and r[0] == key]


def _groups(rows: Rows) -> dict[int | None, Rows]:
    return {key: [r for r in rows if r[0] == key] for key in dict.fromkeys(r[0] for r in rows)}


def _most(rows: Rows) -> str | None:
    return max((r[1] for r in rows if r[1] is not None), default=None)


def insert(body: Body) -> None:
    """INSERT INTO t SELECT key, val FROM feed"""
    body.made = body.made + body.came


def insert_groups(body: Body) -> None:
    """INSERT INTO t SELECT key, max(val) FROM feed GROUP BY key"""
    body.made = body.made + [(k, _most(g), _places(g)) for k, g in _groups(body.came).items()]


def insert_deleted(body: Body) -> None:
    """INSERT INTO t SELECT key, val FROM deletes(feed)"""
    body.made = body.made + body.gone


def insert_changes(body: Body) -> None:
    """INSERT INTO t SELECT key, CAST(sum(diff) AS STRING) FROM changes(feed) GROUP BY key"""
    rows = [*((1, r) for r in body.came), *((-1, r) for r in body.gone)]
    for key, group in _groups([r for _, r in rows]).items():
        count = sum(sign for sign, r in rows if r[0] == key)
        body.made = [*body.made, (key, str(count), _places(group))]


def insert_own(body: Body) -> None:
    """INSERT INTO t SELECT a, b || '+' FROM t WHERE b < 'y'"""
    body.made = body.made + [(a, f"{b}+", w) for a, b, w in body.held if b is not None and b < "y"]


def insert_new(body: Body) -> None:
    """INSERT INTO t SELECT key, val FROM feed WHERE NOT EXISTS (SELECT 1 FROM t WHERE a = key)"""
    body.made = body.made + [r for r in body.came if not _of(body.held, r[0])]


def delete(body: Body) -> None:
    """DELETE FROM t WHERE a IN (SELECT key FROM feed)"""
    body.keep(lambda r: None if _of(body.came, r[0]) else r)


def delete_all(body: Body) -> None:
    """DELETE FROM t"""
    body.keep(lambda _: None)


def update(body: Body) -> None:
    """UPDATE t SET b = b || '!' WHERE b > 'x'"""
    hit = [r for r in body.held if r[1] is not None and r[1] > "x"]
    body.keep(lambda r: None if r in hit else r)
    body.made = body.made + [(a, f"{b}!", w) for a, b, w in hit]


def update_found(body: Body) -> None:
    """UPDATE t SET b = (SELECT max(val) FROM feed WHERE key = t.a) WHERE a IN (SELECT key FROM feed)"""  # noqa: E501
    hit = [(r, _of(body.came, r[0])) for r in body.held if _of(body.came, r[0])]
    body.keep(lambda r: None if _of(body.came, r[0]) else r)
    body.made = body.made + [(r[0], _most(f), r[2] | _places(f)) for r, f in hit]


def merge(body: Body) -> None:
    """MERGE INTO t USING (SELECT key, max(val) AS v FROM feed GROUP BY key) s ON t.a = s.key
    WHEN MATCHED AND s.v = 'z' THEN DELETE WHEN MATCHED THEN UPDATE SET b = t.b || s.v
    WHEN NOT MATCHED AND s.v <> 'x' THEN INSERT (a, b) VALUES (s.key, s.v)
    """
    source = [(k, _most(g), _places(g)) for k, g in _groups(body.came).items()]
    made: Rows = []
    for a, b, w in body.held:
        for _, v, found in _of(source, a):
            if v != "z":
                made.append((a, None if b is None else f"{b}{v}", w | found))
    made += [s for s in source if not _of(body.held, s[0]) and s[1] != "x"]
    body.keep(lambda r: None if _of(source, r[0]) else r)
    body.made = body.made + made


def merge_alone(body: Body) -> None:
    """MERGE INTO t USING (SELECT DISTINCT key FROM feed) s ON t.a = s.key
    WHEN MATCHED AND t.b = 'x' THEN DELETE
    WHEN NOT MATCHED BY SOURCE AND t.b > 'x' THEN UPDATE SET b = 'alone'
    """
    source = [(k, None, _places(g)) for k, g in _groups(body.came).items()]

    def kept(row: Row) -> Row | None:
        found = _of(source, row[0])
        if not found:
            return None if row[1] is not None and row[1] > "x" else row
        return None if row[1] == "x" else (row[0], row[1], row[2] | _places(found))

    alone = [r for r in body.held if not _of(source, r[0]) and r[1] is not None and r[1] > "x"]
    body.keep(kept)
    body.made = body.made + [(a, "alone", w) for a, _, w in alone]


STATEMENTS = (
    insert, insert_groups, insert_deleted, insert_changes, insert_own, insert_new, delete,
    delete_all, update, update_found, merge, merge_alone,
)  # fmt: skip


class TwoColumns(FakeAnalyst):
    """Every query has two."""

    def columns(self, query: lp.Query) -> tuple[Column, ...]:
        """Two."""
        return (Column("key", "int"), Column("v", "string"))


def _task(statements: Iterable[Callable[[Body], None]], passes: int = 1) -> lp.TaskWrite:
    texts = "; ".join((s.__doc__ or "").replace("\n", " ") for s in statements)
    option = f"WITH (ITERATIONS = {passes})" if passes > 1 else ""
    header = f"CREATE CONTINUAL TASK t (a INT, b STRING) {option} ON INPUT feed AS ("
    plan = bind(f"{header}{texts})", TwoColumns()).plan
    assert isinstance(plan, lp.TaskWrite)
    return plan


class Queries:
    """The texts of queries, with what the names in them mean."""

    def __init__(self) -> None:
        self.tables: dict[str, str] = {}

    def read(self, query: lp.Query) -> tuple[str, dict[str, Relation]]:
        """A query's text, and the relations in it."""
        relations: dict[str, Relation] = {}
        names = {}
        for ref, node in zip(query.sql.relations, query.relations, strict=True):
            assert isinstance(node, lp.Relation)
            name = names[ref] = f"r{len(self.tables)}"
            kinds = {lp.InsertsInput: "came", lp.DeletesInput: "gone", lp.SelfReference: "stored"}
            self.tables[name] = kinds.get(type(node), "")
            if isinstance(node, lp.NormalReference):
                self.tables[name] = "made" if "made" in node.object_id else "again"
            if isinstance(node, lp.ViewReference):
                relations[name] = PlainView(*_swapped(self.read(node.query), node.columns))
            else:
                types = ("int", "string")
                pairs = zip(node.columns, types, strict=True)
                relations[name] = tuple(Column(c, t) for c, t in pairs)
        return rewrite(query.sql, relation=names.__getitem__).text, relations


def _swapped(
    read: tuple[str, dict[str, Relation]], columns: tuple[str, ...]
) -> tuple[str, tuple[str, ...], dict[str, Relation]]:
    return read[0], columns, read[1]


def _rows(seed: random.Random, table: str, count: int) -> Rows:
    return [(seed.choice(KEYS), seed.choice(TEXTS), frozenset({(table, i)})) for i in range(count)]


def _store(connection: duckdb.DuckDBPyConnection, table: str, rows: Rows) -> None:
    names = "a INT, b VARCHAR" if table in ("stored", "made") else "key INT, val VARCHAR"
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} ({names}, {FILE_COLUMN} VARCHAR, {ROW_COLUMN} INT)"
    )
    for i, (a, b, where) in enumerate(rows):
        place = (table, i) if table == "made" else next(iter(where))
        connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", [a, b, *place])


def _found(
    connection: duckdb.DuckDBPyConnection, query: lp.Query, row: tuple[int | None, str | None]
) -> frozenset[Place]:
    """The places that a row of a query comes from, by the product."""
    queries = Queries()
    whole = whole_query(*queries.read(query))
    assert not isinstance(whole, Reason), whole
    found = trace(whole, {})
    names = ", ".join(
        f"{c.sql} {t}" for c, t in zip(wanted_columns(2), ("INT", "VARCHAR"), strict=True)
    )
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {WANTED} ({names})")
    connection.execute(f"INSERT INTO {WANTED} VALUES (?, ?)", list(row))
    places: set[Place] = set()
    for one in found.contributions:
        assert one.rows is not None, one.why_untold
        text = one.rows.sql(name_by(lambda use: queries.tables.get(use.table, use.table)))
        places |= set(connection.execute(translated(text)).fetchall())
    return frozenset(places)


def check(number: int, statements: Iterable[Callable[[Body], None]]) -> None:
    """One body over small random tables."""
    statements, seed = list(statements), random.Random(number)
    body = Body(_rows(seed, "came", 4), _rows(seed, "gone", 2), _rows(seed, "stored", 4))
    connection = connect_plainly()
    for table in ("came", "gone", "stored"):
        _store(connection, table, getattr(body, table))
    for statement in statements:
        statement(body)
    plan = _task(statements)
    queries = [w.query for w in written_rows(plan, plan.object_id)]
    for wanted in dict.fromkeys((a, b) for a, b, _ in body.made):
        expected = _places(r for r in body.made if r[:2] == wanted)
        got = frozenset().union(*(_found(connection, q, wanted) for q in queries if q is not None))
        assert got == expected, f"{[s.__name__ for s in statements]} {wanted}"
    connection.close()


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.__name__)
def test_every_statement(statement: Callable[[Body], None]) -> None:
    """Alone, and on rows that the body has proposed itself."""
    check(1, [statement])
    check(2, [insert, statement])


@settings(max_examples=8)
@given(strategies.integers(0, 1_000_000), strategies.lists(strategies.sampled_from(STATEMENTS), min_size=2, max_size=3))  # fmt: skip # noqa: E501
def test_any_body(number: int, statements: list[Callable[[Body], None]]) -> None:
    """Whatever follows what."""
    check(number, statements)


def insert_next(body: Body) -> None:
    """INSERT INTO t SELECT a + 1, max(b) FROM t WHERE a < 4 AND a + 1 NOT IN (SELECT a FROM t
    WHERE a IS NOT NULL) GROUP BY a + 1
    """
    there = {r[0] for r in body.held}
    next_ones = [r for r in body.held if r[0] is not None and r[0] < 4 and r[0] + 1 not in there]
    groups = _groups(next_ones).items()
    body.made = body.made + [(k + 1, _most(g), _places(g)) for k, g in groups if k is not None]


def _passes(body: Body, statements: Sequence[Callable[[Body], None]], limit: int) -> list[Body]:
    """What is held before each pass that changes something, and behind the last one."""
    held = [_copy(body)]
    for _ in range(limit):
        for statement in statements:
            statement(body)
        before, after = (Counter((a, b) for a, b, _ in one.held) for one in (held[-1], body))
        if before == after:
            break
        held.append(_copy(body))
    return held


def _copy(body: Body) -> Body:
    made = Body(body.came, body.gone, body.stored)
    made.made = body.made
    return made


def check_passes(number: int, statements: Sequence[Callable[[Body], None]], limit: int) -> int:
    """A body that runs several times over small random tables; returns how often it ran."""
    seed = random.Random(number)
    held = _passes(
        Body(_rows(seed, "came", 3), _rows(seed, "gone", 2), _rows(seed, "stored", 3)),
        statements,
        limit,
    )
    plan, connection = _task(statements, limit), connect_plainly()
    for table in ("came", "gone"):
        _store(connection, table, getattr(held[0], table))
    passes = len(held) - 1 if depends_on_passes(plan) else min(len(held) - 1, 1)
    for wanted in dict.fromkeys((a, b) for a, b, _ in held[-1].made):
        expected = _places(r for r in held[-1].made if r[:2] == wanted)
        got: set[Place] = set()
        asked = {wanted}
        for i in range(passes, 0, -1):
            _store(connection, "stored", held[i - 1].stored)
            _store(connection, "made", held[i - 1].made)
            queries = [w.query for w in written_rows(plan, plan.object_id, is_later=i > 1)]
            found = frozenset().union(
                *(_found(connection, q, one) for q in queries if q is not None for one in asked)
            )
            got |= {(table, row) for table, row in found if table != "made"}
            made = [held[i - 1].made[row] for table, row in found if table == "made"]
            asked = {(a, b) for a, b, _ in made}
        assert not asked
        assert got == expected, f"{[s.__name__ for s in statements]} {limit} {wanted}"
    connection.close()
    return passes


def test_a_body_that_runs_several_times() -> None:
    """What a pass reads of what earlier ones wrote is followed to where they had it from."""
    assert check_passes(1, [insert, insert_next], 9) > 2
    assert check_passes(2, [insert, insert_own], 3) == 3
    assert check_passes(3, [insert, update], 3) == 3
    assert check_passes(4, [insert_new, insert_next, delete], 4) > 1
    assert check_passes(5, [insert], 3) == 1  # each pass writes the same again
    assert not depends_on_passes(_task([insert, delete], 3))


@settings(max_examples=8)
@given(strategies.integers(0, 1_000_000), strategies.lists(strategies.sampled_from((*STATEMENTS, insert_next)), min_size=1, max_size=3), strategies.integers(2, 3))  # fmt: skip # noqa: E501
def test_any_body_that_runs_several_times(
    number: int, statements: list[Callable[[Body], None]], limit: int
) -> None:
    """Whatever follows what."""
    check_passes(number, statements, limit)


@settings(max_examples=8)
@given(strategies.integers(0, 1_000_000), strategies.lists(strategies.sampled_from(STATEMENTS), min_size=1, max_size=2))  # fmt: skip # noqa: E501
def test_rows_that_are_read_beside_those_that_came(
    number: int, statements: list[Callable[[Body], None]]
) -> None:
    """They are told apart from them, and are in every place where these are read."""
    seed = random.Random(number)
    came, again = _rows(seed, "came", 2), _rows(seed, "again", 2)
    body = Body([*came, *again], _rows(seed, "gone", 2), _rows(seed, "stored", 3))
    connection = connect_plainly()
    for table, rows in (("came", came), ("again", again), ("gone", body.gone), ("stored", body.stored)):  # fmt: skip # noqa: E501
        _store(connection, table, rows)
    for statement in statements:
        statement(body)
    plan = _task(statements)
    (feed,) = (n for n in plan.inputs if isinstance(n, lp.InsertsInput))
    read = {feed.object_id: sent_again(feed.object_id, ("key", "val"))}
    queries = [w.query for w in written_rows(plan, plan.object_id, again=read)]
    for wanted in dict.fromkeys((a, b) for a, b, _ in body.made):
        expected = _places(r for r in body.made if r[:2] == wanted)
        got = frozenset().union(*(_found(connection, q, wanted) for q in queries if q is not None))
        assert got == expected, f"{[s.__name__ for s in statements]} {wanted}"
    connection.close()
