"""Connections that share an engine, and what a warehouse has for queries."""

import threading
from pathlib import Path

import pytest

import ctsql
from ctsql.catalog.errors import CtsqlError

pytestmark = pytest.mark.spark


def test_a_duplicate_has_its_own_state(con: ctsql.Connection) -> None:
    """Transaction, schema, settings and cancel are of one connection; the engine is of both."""
    con.execute("CREATE TABLE t (k INT); CREATE SCHEMA s; CREATE TABLE s.t (v STRING)")
    other = con.duplicate()
    assert other.spark is con.spark
    other.execute("USE s; SET isolation = 'serializable'; SET tick_interval = '1 second'")
    assert other.execute("SELECT * FROM t").columns == ["v"]
    assert con.execute("SELECT * FROM t").columns == ["k"]
    assert con.execute("SHOW tick_interval").fetchall()[0][1] == "0"
    con.begin()
    con.execute("INSERT INTO t VALUES (1)")
    assert other.execute("SELECT * FROM default.t").fetchall() == []
    assert not other.in_transaction
    con.commit()
    assert other.execute("SELECT * FROM default.t").fetchall() == [(1,)]
    other.cancel()
    assert con.execute("SELECT * FROM t").fetchall() == [(1,)]
    other.begin()
    other.execute("INSERT INTO t VALUES ('lost')")
    other.close()
    assert con.execute("SELECT * FROM s.t").fetchall() == []
    with pytest.raises(ctsql.InterfaceError):
        other.execute("SELECT 1")


def test_cancel_ends_the_statement_of_its_connection(con: ctsql.Connection) -> None:
    """The other connection's statement waits, and then runs."""
    other = con.duplicate()
    failed = list[str]()

    def run() -> None:
        try:
            other.execute("SELECT count(*) FROM range(100000000000)").fetchall()
        except CtsqlError as problem:
            failed.append(problem.condition)

    thread = threading.Thread(target=run)
    thread.start()
    while not other._group:
        thread.join(0.01)
    other.cancel()
    assert con.execute("SELECT 1").fetchall() == [(1,)]
    thread.join(30)
    assert failed == ["STATEMENT_CANCELLED"]
    assert other.relations() == con.relations()


def _shown(relations: list[ctsql.Relation]) -> list[tuple[object, ...]]:
    return [
        (r.schema, r.name, r.kind, [(c.name, c.type) for c in r.columns], r.comment)
        for r in relations
        if r.schema != "system"
    ]


def test_relations_have_columns(con: ctsql.Connection, tmp_path: Path) -> None:
    """Objects and system tables with types, also without Spark; nothing is computed."""
    con.execute("""
        CREATE SCHEMA s;
        CREATE TABLE s.t (k INT NOT NULL COMMENT 'the key', v DECIMAL(8, 2));
        COMMENT ON TABLE s.t IS 'orders';
        CREATE VIEW v AS SELECT k, array(v) AS vs FROM s.t;
        CREATE MATERIALIZED VIEW mv AS SELECT count(*) AS n FROM s.t;
    """)
    found = con.relations()
    assert _shown(found) == [
        ("default", "mv", "materialized view", [("n", "bigint")], None),
        ("default", "v", "view", [("k", "int"), ("vs", "array<decimal(8,2)>")], None),
        ("s", "t", "table", [("k", "int"), ("v", "decimal(8,2)")], "orders"),
    ]
    table = next(r for r in found if r.name == "t")
    assert [column.nullable for column in table.columns] == [False, True]
    assert table.columns[0].comment == "the key"
    assert table.definition.startswith("CREATE TABLE s.t")
    lag = next(r for r in found if (r.schema, r.name) == ("system", "lag"))
    assert lag.columns[0].name == "object"
    assert len({r.id for r in found}) == len(found)
    unstarted = ctsql.connect(con.warehouse, read_only=True)
    assert unstarted.relations() == found
    assert not unstarted.started
