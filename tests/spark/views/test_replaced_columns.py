"""CREATE OR REPLACE MATERIALIZED VIEW by a query with other columns: one commit, exact reads."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.runtime.delta.transaction import OptimisticTransaction
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.definitions import create
from ctsql.runtime.views.refresh_policy import Strategy
from ctsql.runtime.views.sink import ViewSink
from ctsql.runtime.warehouse.sources import StoredSources
from tests.conftest import TEST_MASTER
from tests.helpers.opened import engine_of, item_of
from tests.helpers.processes import Process
from tests.helpers.table_folder import (
    data_files,
    folder,
    log,
    orphans,
    rows_at,
    transaction,
    versions,
)
from tests.helpers.view_reports import rows, said
from tests.scenarios.runner import assert_rows

pytestmark = pytest.mark.spark

TABLE = "CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 10), (1, 5), (2, 20);"
OLD = "SELECT k, sum(v) AS s FROM t GROUP BY k"
OLD_ROWS = [(1, 15), (2, 20)]
NEW = "SELECT CAST(max(v) AS STRING) AS s, count(*) AS n, k FROM t GROUP BY k"
NEW_ROWS = [("10", 2, 1), ("20", 1, 2)]
FOLLOW = "WITH (REFRESH POLICY = incremental)"
STORED = "SET isolation = 'serializable'; SELECT * FROM m"


@pytest.fixture
def shop(con: Connection) -> Connection:
    """A table and the view ``m`` by its old query."""
    con.execute(TABLE + f"CREATE MATERIALIZED VIEW m AS {OLD}")
    return con


def _replace(con: Connection, query: str = NEW, options: str = "", name: str = "m") -> None:
    con.execute(f"CREATE OR REPLACE MATERIALIZED VIEW {name} {options} AS {query}")


def _anew(table: Path) -> list[int]:
    """The versions that gave the table columns, the first left out."""
    return [i for i, commit in enumerate(log(table)) if i and any("metaData" in a for a in commit)]


def _item(con: Connection, name: str = "m") -> Item:
    return item_of(con, name)


def test_a_table_that_maps_columns(shop: Connection) -> None:
    """Delta takes no rows under other columns there: only columns at the end are taken."""
    table = folder(shop, "m")
    mode = "('delta.columnMapping.mode' = 'name')"
    shop.spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES {mode}")
    with pytest.raises(CtsqlError) as raised:
        _replace(shop)
    assert raised.value.condition == "NOT_SUPPORTED"
    assert "column mapping" in str(raised.value.detail)
    shop.execute("INSERT INTO t VALUES (2, 1)")
    assert_rows(shop.execute("SELECT * FROM m").fetchall(), [(1, 15), (2, 21)], "as it was")
    _replace(shop, "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k")
    assert_rows(shop.execute("SELECT * FROM m").fetchall(), [(1, 15, 2), (2, 21, 2)], "one more")


def _refused(con: Connection, sql: str) -> CtsqlError:
    with pytest.raises(CtsqlError) as refused:
        con.execute(sql).fetchall()
    return refused.value


def test_other_columns_come_in_one_commit(shop: Connection) -> None:
    """Readers of any version see the old or the new; rows of others vanish; then it follows."""
    table, before = folder(shop, "m"), shop.now()
    wrong = shop.spark.createDataFrame([(7, 7)], "k INT, s BIGINT")
    wrong.coalesce(1).write.format("delta").mode("append").save(str(table))
    held = versions(table)
    _replace(shop)
    (anew,) = _anew(table)
    assert anew == len(log(table)) - 1
    commit = log(table)[anew]
    removed = {a["remove"]["path"] for a in commit if "remove" in a}
    assert removed == data_files(table) - _added(commit)
    assert not any("add" in a or "remove" in a for c in log(table)[len(held) : anew] for a in c)
    for version in versions(table)[held[-1] :]:
        expected = NEW_ROWS if version == anew else [*OLD_ROWS, (7, 7)]
        assert_rows(rows_at(shop, table, version), expected, f"version {version}")
    told = said(shop, "m")
    assert (told["strategy"], told["why"]) == (Strategy.RECOMPUTE.value, "REDEFINED")
    assert told["t"] == (transaction(commit) or 0) - 1
    assert set(told["bindings"]) == {_item(shop, "t").id}
    assert_rows(shop.execute("SELECT n, m.* FROM m").fetchall(), [(r[1], *r) for r in NEW_ROWS], "")
    early = _refused(shop, f"SELECT * FROM m AS OF {before}")
    assert early.condition == "AS_OF_OUT_OF_RANGE"
    _, statement = (early.hint or "").split("Spark: ")
    assert_rows(
        [tuple(r) for r in shop.spark.sql(statement).collect()], OLD_ROWS, "before, by Spark"
    )
    assert shop.execute("VERIFY m").fetchall() == []
    assert [r[:2] for r in shop.execute("DESCRIBE m").fetchall()] == [
        ("s", "string"),
        ("n", "bigint"),
        ("k", "int"),
    ]
    assert NEW in str(shop.execute("SHOW CREATE m").fetchall())
    assert not orphans(table)


def _added(commit: list[dict[str, Any]]) -> set[str]:
    return {a["add"]["path"] for a in commit if "add" in a}


def test_what_the_table_need_not_know_changes_nothing(shop: Connection) -> None:
    """NOT NULL, case and the order of equal rows: the difference; an equal plan: nothing."""
    table = folder(shop, "m")
    _replace(shop, "SELECT K AS K, CAST(1 AS BIGINT) AS s FROM t GROUP BY k")
    assert_rows(shop.execute("SELECT * FROM m").fetchall(), [(1, 1), (2, 1)], "the difference")
    assert _anew(table) == []
    files = data_files(table)
    _replace(shop, "SELECT K AS K, CAST(1 AS BIGINT) AS s FROM t GROUP BY k")
    assert (data_files(table), _anew(table)) == (files, [])
    assert said(shop, "m")["revision"] == 1


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def awaiting(shop: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """Another connection, after the one that replaced the view died before it wrote."""
    with monkeypatch.context() as dying:
        dying.setattr(create, "write_new", _die)
        with pytest.raises(KeyboardInterrupt):
            _replace(shop)
    with open_connection(shop.warehouse, master=TEST_MASTER) as other:
        yield other


def test_between_the_catalog_and_the_table(awaiting: Connection) -> None:
    """What is stored is refused, a read-only connection computes, the next read finishes."""
    table = folder(awaiting, "m")
    commits = len(log(table))
    for sql in ("VERIFY m", STORED, "SELECT count(*) FROM m"):
        assert _refused(awaiting, sql).condition == "VIEW_REPLACED", sql
    assert len(log(table)) == commits
    with open_connection(awaiting.warehouse, master=TEST_MASTER, read_only=True) as reader:
        assert_rows(reader.execute("SELECT * FROM m").fetchall(), NEW_ROWS, "computed")
        (lacks,) = reader.execute("SHOW PENDING").fetchall()
        assert "other columns" in str(lacks[-1])
        assert _refused(reader, STORED).condition == "VIEW_REPLACED"
        assert len(log(table)) == commits
        awaiting.execute("RESET isolation")
        assert_rows(awaiting.execute("SELECT * FROM m").fetchall(), NEW_ROWS, "finished")
        assert _anew(table) == [len(log(table)) - 1]
        assert_rows(reader.execute(STORED).fetchall(), NEW_ROWS, "stored")
    assert_rows(awaiting.execute(STORED).fetchall(), NEW_ROWS, "stored")


@pytest.mark.slow
def test_one_with_an_old_catalog_writes_nothing(
    shop: Connection, connect: Callable[[], Connection]
) -> None:
    """Neither the old columns nor the old rows; its read says that it is to be run again."""
    late = connect()
    late.execute("SELECT * FROM m")
    old, table = engine_of(late), folder(shop, "m")
    item = _item(late)
    for query in (NEW, OLD):
        _replace(shop, query)
        commits = len(log(table))
        shop.execute("INSERT INTO t VALUES (4, 4)")
        fresh = engine_of(shop).mint_fresh()
        old.timeline.refresh()
        ViewSink(old.warehouse, item).advance(fresh, full=True)
        assert len(log(table)) == commits
        assert old.relations.item(item.id) == item
        with pytest.raises(CtsqlError) as refused:
            StoredSources(old.warehouse).contents(item.id, fresh)
        assert refused.value.condition == "VIEW_REPLACED"
        shop.execute("DELETE FROM t WHERE k = 4")
        late.execute("SELECT * FROM m")
        item = _item(late)
    assert_rows(late.execute("SELECT * FROM m").fetchall(), OLD_ROWS, "looked again")


@pytest.mark.slow
def test_what_was_bound_to_older_columns_is_not_read(
    shop: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view is replaced between the binding of a query and its read: run it again."""
    mint_for = Engine.mint_for

    def replaced_first(engine: Engine, items: Any) -> int:
        monkeypatch.undo()
        _replace(shop, OLD)
        return mint_for(engine, items)

    shop.execute("CREATE TABLE copy (n BIGINT)")
    with open_connection(shop.warehouse, master=TEST_MASTER) as other:
        for sql in ("SELECT n, k FROM m", "INSERT INTO copy SELECT n FROM m"):
            _replace(shop)
            monkeypatch.setattr(Engine, "mint_for", replaced_first)
            refused = _refused(other, sql)
            assert (refused.condition, refused.hint) == (
                "VIEW_REPLACED",
                "Run the statement again.",
            )
    assert shop.execute("SELECT * FROM copy").fetchall() == []


@pytest.mark.slow
def test_subscriptions_are_outdated(shop: Connection) -> None:
    """By other columns; not by another query with the same ones, of which the change is told."""
    shop.execute("SUBSCRIBE TO m UP TO NOW AS 'named'").fetchall()
    with shop.subscribe("m") as live:
        told = iter(live)
        assert {next(told).row for _ in OLD_ROWS} == set(OLD_ROWS)
        _replace(shop, "SELECT k, sum(v) * 2 AS s FROM t GROUP BY k")
        changed = shop.execute("SUBSCRIBE TO m UP TO NOW AS 'named'").fetchall()
        assert sorted(row[1:] for row in changed) == [
            (-1, 1, 15),
            (-1, 2, 20),
            (1, 1, 30),
            (1, 2, 40),
        ]
        _replace(shop)
        for again in (lambda: list(told), lambda: shop.execute("SUBSCRIBE TO m AS 'named'")):
            with pytest.raises(CtsqlError) as outdated:
                again()
            assert outdated.value.condition == "SUBSCRIPTION_OUTDATED"
    begun = shop.execute("SUBSCRIBE TO m FROM 1 UP TO NOW").fetchall()
    assert_rows([row[2:] for row in begun], NEW_ROWS, "from its replacement on")


REFUSED = [
    ("SELECT s FROM m", "SELECT k FROM t", "COLUMNS_IN_USE"),
    (None, "SELECT k AS `a b` FROM t", "INVALID_NAME"),
    (None, "SELECT 'x' COLLATE UTF8_LCASE AS i FROM t", "INVALID_STATEMENT"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "query", "condition"), REFUSED)
def test_refused_while_nothing_is_changed(
    reader: str | None, query: str, condition: str, shop: Connection
) -> None:
    """Somebody reads it; no table has such columns."""
    if reader is not None:
        shop.execute(f"CREATE VIEW above AS {reader}")
    before, commits = _item(shop), len(log(folder(shop, "m")))
    with pytest.raises(CtsqlError) as refused:
        _replace(shop, query)
    assert refused.value.condition == condition
    assert (_item(shop), len(log(folder(shop, "m")))) == (before, commits)


@pytest.mark.slow
def test_the_next_refreshes_follow(
    con: Connection, connect: Callable[[], Connection], warehouse: Path
) -> None:
    """With a state table of its own, after a restart and by another process; OPTIMIZE, MAINTAIN."""
    averages = "SELECT k, avg(v) AS a FROM t GROUP BY k"
    more = "SELECT k % 2 AS odd, avg(v) AS a, count(DISTINCT v) AS n FROM t GROUP BY k % 2"
    con.execute(TABLE + f"CREATE MATERIALIZED VIEW m {FOLLOW} AS {averages}")
    con.execute("INSERT INTO t VALUES (3, 3)")
    assert rows(con, "SELECT * FROM m") == rows(con, averages)
    first = said(con, "m")["state"]["digest"]
    other = "SELECT k, avg(v) AS a, count(v) AS n FROM t WHERE v > 0 GROUP BY k"
    _replace(con, other, FOLLOW)
    con.execute("DELETE FROM t WHERE v = 10")
    assert rows(con, "SELECT * FROM m") == rows(con, other)
    assert said(con, "m")["state"]["digest"] != first
    table = folder(con, "m")
    assert [p.name for p in (table / "_state").iterdir()] == [said(con, "m")["state"]["digest"]]
    con.execute("INSERT INTO t VALUES (3, 5), (4, 4)")
    assert rows(con, "SELECT * FROM m") == rows(con, other)
    assert said(con, "m")["strategy"] == Strategy.STATE_TABLE.value
    con.close()
    again = connect()
    again.execute("DELETE FROM t WHERE k = 4; MAINTAIN m")
    again.spark.sql(f"OPTIMIZE delta.`{table}`")
    assert rows(again, "SELECT * FROM m") == rows(again, other)
    assert said(again, "m")["strategy"] == Strategy.STATE_TABLE.value
    process = Process(warehouse, ["INSERT INTO t VALUES (1, 1)", "SELECT * FROM m"])
    process.wait_ready()
    process.go()
    assert process.finish()[0] == 0
    assert rows(again, "SELECT * FROM m") == rows(again, other)
    assert said(again, "m")["strategy"] == Strategy.STATE_TABLE.value
    _replace(again, more, FOLLOW)
    assert rows(again, "SELECT * FROM m") == rows(again, more)
    assert len(_anew(table)) == 2


@pytest.mark.slow
def test_options_of_the_view(con: Connection) -> None:
    """A column list, a comment, ASSERT NOT NULL and refresh times are those of the new one."""
    con.execute(TABLE + f"CREATE MATERIALIZED VIEW m COMMENT 'old' AS {OLD}")
    con.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW m (`Key`, total, at_once) COMMENT 'new' "
        "WITH (ASSERT NOT NULL total, REFRESH EVERY '1 day') "
        "AS SELECT k, sum(v), struct(k AS a, map(k, v) AS b) FROM t GROUP BY k, v"
    )
    held = con.execute("SELECT Key, total FROM m").fetchall()
    assert_rows(held, [(1, 5), (1, 10), (2, 20)], "refreshed at once")
    described = {str(r[0]): r for r in con.execute("DESCRIBE EXTENDED m").fetchall()}
    assert described["# comment"][1] == "new"
    assert described["at_once"][1] == "struct<a:int,b:map<int,int>>"
    con.execute("INSERT INTO t VALUES (5, NULL)")
    assert_rows(con.execute("SELECT Key, total FROM m").fetchall(), held, "until tomorrow")
    with pytest.raises(CtsqlError, match="is NULL"):
        con.execute("REFRESH MATERIALIZED VIEW m")
    _replace(con, "SELECT * FROM t WHERE k > 100")
    assert con.execute("SELECT * FROM m").fetchall() == []
    assert not any("add" in action for action in log(folder(con, "m"))[-1])
    assert con.execute("VERIFY m").fetchall() == []


TYPES = (
    "TIMESTAMP_NTZ'2020-01-01 00:00:00' AS a, parse_json('1') AS b, DATE'2020-01-01' AS c, "
    "X'01' AS d, CAST(1.5 AS FLOAT) AS e, array(struct(1 AS x, 'y' AS y)) AS f, "
    "CAST('x' AS VARCHAR(3)) AS h"
)


@pytest.mark.slow
def test_any_types(shop: Connection) -> None:
    """Also those for which the table needs a feature that it had not; and back."""
    _replace(shop, f"SELECT k, {TYPES} FROM t")
    made = rows(shop, "SELECT * FROM m")
    shop.execute(f"CREATE MATERIALIZED VIEW fresh AS SELECT k, {TYPES} FROM t")
    assert made == rows(shop, "SELECT * FROM fresh")
    read = shop.spark.read.format("delta")
    here, there = (read.load(str(folder(shop, name))).schema for name in ("m", "fresh"))
    assert here == there
    _replace(shop, "SELECT CAST(k AS BIGINT) AS k FROM t")
    assert_rows(shop.execute("SELECT * FROM m").fetchall(), [(1,), (1,), (2,)], "back")


@pytest.mark.slow
def test_replaced_before_its_first_refresh(con: Connection) -> None:
    """Nothing was written yet: the table waits for the columns as well."""
    con.execute(TABLE + f"CREATE MATERIALIZED VIEW m WITH (REFRESH AT '2100-01-01') AS {OLD}")
    assert _refused(con, "SELECT * FROM m").condition == "AS_OF_OUT_OF_RANGE"
    _replace(con)
    assert_rows(con.execute("SELECT * FROM m").fetchall(), NEW_ROWS, "refreshed at once")
    assert len(_anew(folder(con, "m"))) == 1


@pytest.mark.slow
def test_rows_that_come_while_it_is_written(
    awaiting: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's append makes the commit fail; the next one takes the rows away too."""
    table, commit = folder(awaiting, "m"), OptimisticTransaction._end_with
    wrong = awaiting.spark.createDataFrame([(7, 7)], "k INT, s BIGINT").coalesce(1)

    def after_another(txn: OptimisticTransaction, operation: Any) -> int:
        if '"name":"n"' in txn.txn.metadata().schemaString():
            monkeypatch.undo()
            wrong.write.format("delta").mode("append").save(str(table))
        return commit(txn, operation)

    monkeypatch.setattr(OptimisticTransaction, "_end_with", after_another)
    assert_rows(awaiting.execute("SELECT * FROM m").fetchall(), NEW_ROWS, "finished")
    assert_rows(rows_at(awaiting, table, len(log(table)) - 2), [*OLD_ROWS, (7, 7)], "another's")
    assert _anew(table) == [len(log(table)) - 1]
    assert not orphans(table)
