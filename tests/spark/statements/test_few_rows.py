"""Which queries are answered without generated code, and that nothing of it stays."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from ctsql.api import Connection
from ctsql.connection import dispatch
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.statements.dml.dml import reads_few
from ctsql.runtime.statements.objects.name_resolution import Namespace
from tests.helpers.opened import engine_of

QUERIES = {
    "SELECT 1": True,
    "SELECT * FROM small": True,
    "SELECT v, count(*) FROM shown GROUP BY v": True,
    "SELECT * FROM small AS a JOIN task AS b ON a.k < b.k": True,
    "SELECT * FROM large": False,
    "SELECT * FROM small, large": False,
    "SELECT * FROM middle AS a, middle AS b": True,
    "SELECT * FROM middle AS a, middle AS b, middle AS c": False,
    "SELECT * FROM small, range(10)": False,
    "SELECT explode(sequence(1, 10)) FROM small": False,
    "SELECT * FROM many": False,  # which reads range()
    "SELECT * FROM system.objects": True,
    "SELECT * FROM system.objects AS a, system.lag AS b": False,
}


def test_which_queries(con: Connection) -> None:
    """Those over few rows, and few combinations of these, that make no rows themselves."""
    con.execute("CREATE TABLE small (k BIGINT, v BIGINT)")
    con.execute("INSERT INTO small VALUES (1, 2), (2, 2)")
    con.execute("CREATE TABLE middle (k BIGINT)")
    con.execute("INSERT INTO middle SELECT id FROM range(300)")
    con.execute("CREATE TABLE large (k BIGINT)")
    con.execute("INSERT INTO large SELECT id FROM range(1001)")
    con.execute("CREATE VIEW shown AS SELECT k, v FROM small")
    con.execute("CREATE VIEW many AS SELECT s.k FROM small AS s, range(10)")
    con.execute(
        "CREATE CONTINUAL TASK task (k BIGINT, v BIGINT) ON INPUT small AS "
        "(INSERT INTO task TABLE small)"
    )
    con.execute("SELECT * FROM task").fetchall()
    names = Namespace(engine_of(con), "default")
    found = {}
    for text in QUERIES:
        statement = parse_as(st.Select, text, "<test>")
        found[text] = reads_few(engine_of(con), names.binder().bind_select(statement))
    assert found == QUERIES


def test_settings_are_those_from_before(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the rows cannot be computed; results come one by one or all at once."""
    entered = []
    real = dispatch.for_few_rows

    @contextmanager
    def noted(session: SparkSession) -> Iterator[None]:
        with real(session):
            entered.append(session.conf.get("spark.sql.codegen.factoryMode"))
            yield

    monkeypatch.setattr(dispatch, "for_few_rows", noted)
    con.execute("CREATE TABLE t (k BIGINT, v BIGINT)")
    con.execute("INSERT INTO t VALUES (1, 2), (3, 0)")
    names = ("spark.sql.codegen.factoryMode", "spark.sql.codegen.wholeStage")
    before = [engine_of(con).session.conf.get(name) for name in names]
    assert con.execute("SELECT k + v FROM t ORDER BY k").fetchall() == [(3,), (3,)]
    assert list(con.execute("SELECT k FROM t ORDER BY k DESC")) == [(3,), (1,)]
    assert con.execute("SELECT max(v) FROM t").to_arrow().to_pylist() == [{"max(v)": 2}]
    with pytest.raises(Exception, match="zero"):
        con.execute("SELECT k / v FROM t").fetchall()
    assert set(entered) == {"NO_CODEGEN"}
    assert len(entered) >= 4
    assert [engine_of(con).session.conf.get(name) for name in names] == before
