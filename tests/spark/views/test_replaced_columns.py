"""CREATE OR REPLACE MATERIALIZED VIEW by a query with other columns: one commit, exact reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.runtime.statements.definitions import cutover
from ctsql.runtime.views.refresh_policy import Strategy
from tests.conftest import TEST_MASTER
from tests.helpers.opened import item_of
from tests.helpers.table_folder import (
    data_files,
    folder,
    log,
    orphans,
    rows_at,
    transaction,
    versions,
)
from tests.helpers.turns import turn_at
from tests.helpers.view_reports import rows, said
from tests.scenarios.runner import assert_rows

TABLE = "CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 10), (1, 5), (2, 20);"
OLD = "SELECT k, sum(v) AS s FROM t GROUP BY k"
OLD_ROWS = [(1, 15), (2, 20)]
NEW = "SELECT CAST(max(v) AS STRING) AS s, count(*) AS n, k FROM t GROUP BY k"
NEW_ROWS = [("10", 2, 1), ("20", 1, 2)]
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
    """Delta takes no rows under other columns there."""
    table = folder(shop, "m")
    mode = "('delta.columnMapping.mode' = 'name')"
    shop.spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES {mode}")
    for query in (NEW, "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k"):
        with pytest.raises(CtsqlError, match="NOT_SUPPORTED") as raised:
            _replace(shop, query)
        assert "column mapping" in str(raised.value.detail)
    shop.execute("INSERT INTO t VALUES (2, 1)")
    assert_rows(shop.execute("SELECT * FROM m").fetchall(), [(1, 15), (2, 21)], "as it was")


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
    early = shop.execute(f"SELECT * FROM m AS OF {before}").fetchall()
    assert_rows(early, [(None, None, k) for k, _ in OLD_ROWS], "s had another type, n is new")
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
        dying.setattr(cutover, "complete", _die)
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
def test_rows_that_come_while_it_is_written(
    awaiting: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's append makes the commit fail; the next one takes the rows away too."""
    table = folder(awaiting, "m")
    wrong = awaiting.spark.createDataFrame([(7, 7)], "k INT, s BIGINT").coalesce(1)
    append = wrong.write.format("delta").mode("append")
    turn = turn_at(monkeypatch, "output_staged", lambda: append.save(str(table)))
    assert_rows(awaiting.execute("SELECT * FROM m").fetchall(), NEW_ROWS, "finished")
    assert turn.has_come
    assert_rows(rows_at(awaiting, table, len(log(table)) - 2), [*OLD_ROWS, (7, 7)], "another's")
    assert _anew(table) == [len(log(table)) - 1]
    assert not orphans(table)
