"""A variable of the program stands as a relation where the program asks for it."""

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ctsql
from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.connection.caller_scope import caller_variables
from ctsql.results.result import Result
from ctsql.runtime.rows.given_rows import PythonVariables, holds_rows

of_module = pa.table({"k": [7]})


def test_what_holds_rows() -> None:
    """Tables of any library and lists of dicts; no class, module, number, text or tuple."""
    assert all(map(holds_rows, (pd.DataFrame(), pl.DataFrame(), of_module, of_module.to_reader())))
    assert not any(map(holds_rows, (pd, pl.DataFrame, 1, "k", [(1,)], {"k": 1}, [], None, print)))


def test_scopes_of_a_caller() -> None:
    """Local variables come before those of the module; a comprehension sees what is around it."""
    rows, number = [{"k": 1}], 5
    assert number
    seen = caller_variables({"given": rows}).readable(all_of_caller=True)
    assert {"given", "rows", "of_module"} <= set(seen.names())
    assert not {"number", "pytest", "pl"} & set(seen.names())
    (inside,) = [caller_variables(None).readable(all_of_caller=True) for _ in (1,)]
    assert inside.has("rows")
    only_given = caller_variables({"given": rows}).readable(all_of_caller=False)
    assert list(only_given.names()) == ["given"]


def test_the_nearest_meaning_decides() -> None:
    """A local variable without rows is not passed over for a global one."""
    assert not PythonVariables(({"k": 1}, {"k": [{"a": 1}]})).has("k")
    assert PythonVariables(({"k": [{"a": 1}]}, {"k": 1})).has("k")


def _refusal(con: Connection, sql: str, condition: str, *words: str) -> None:
    df = [{"k": 1}]
    number = 5
    assert df
    assert number
    with pytest.raises(CtsqlError) as refused:
        con.execute(sql)
    assert refused.value.condition == condition, refused.value
    for word in words:
        assert word in str(refused.value)


def _first(result: Result) -> list[Any]:
    return sorted(row[0] for row in result)


@pytest.mark.spark
def test_variables_are_read_when_asked_for(con: Connection) -> None:
    """Of every kind, in everything that runs once, as they are at that moment."""
    con.execute("CREATE TABLE t (k BIGINT)")
    _refusal(con, "SELECT * FROM df", "UNKNOWN_RELATION", "SET python_variables = true")
    con.execute("SET python_variables = true")
    df: Any
    for df in (
        pd.DataFrame({"k": [1, 2]}),
        pl.DataFrame({"k": [1, 2]}),
        pa.table({"k": [1, 2]}),
        con.spark.sql("SELECT id AS k FROM range(1, 3)"),
        con.execute("SELECT id AS k FROM range(1, 3)"),
        [{"k": 1}, {"k": 2}],
    ):
        assert _first(con.execute("SELECT k FROM df")) == [1, 2], type(df)
    found = [_first(con.execute(f"SELECT k FROM df WHERE k = {k}")) for k in (1, 2)]
    assert found == [[1], [2]]
    lazy = con.execute("SELECT k FROM df")
    df = pa.table({"k": [1, 2]}).to_reader()  # can be read once
    assert _first(lazy) == [1, 2]
    con.execute("INSERT INTO t SELECT k FROM df; INSERT INTO t SELECT d.k + 2 FROM df d JOIN df")
    assert _first(con.execute("SELECT k FROM t")) == [1, 2, 3, 3, 4, 4]
    changes = pd.DataFrame({"k": [4], "n": [40]})
    con.execute("MERGE INTO t USING changes c ON t.k = c.k WHEN MATCHED THEN UPDATE SET k = c.n")
    con.execute("CREATE TABLE made AS SELECT k FROM of_module")
    gone = "MERGE INTO t USING changes c ON t.k = c.n AND t.k > ? WHEN MATCHED THEN DELETE"
    assert con.executemany(gone, [(99,), (1,)]).rowcount == 2
    assert len(changes) == 1
    query = "SELECT k FROM made UNION ALL SELECT max(k) FROM t"
    assert _first(con.execute(query)) == [3, 7]
    con.execute("RESET python_variables")
    _refusal(con, "SELECT * FROM df", "UNKNOWN_RELATION", "SET python_variables = true")


@pytest.mark.spark
def test_an_object_comes_first_and_definitions_are_refused(con: Connection) -> None:
    """What is stored never depends on a variable, and no name changes its meaning by one."""
    con.execute("CREATE TABLE made (k BIGINT); INSERT INTO made VALUES (1)")
    made = [{"k": 2}]
    with pytest.raises(CtsqlError, match="OBJECT_EXISTS"):
        con.execute("SELECT k FROM made", variables={"made": made})
    named = con.execute("SELECT k FROM x WHERE k = ?", [2], variables={"x": made})
    assert _first(named) == [2]
    view = "CREATE MATERIALIZED VIEW v AS SELECT * FROM df"
    _refusal(con, view, "UNKNOWN_RELATION", "cannot read the Python variable df", "variables={")
    asking = ctsql.connect(con.warehouse, spark=con.spark, python_variables=True)
    with asking.cursor() as cursor:
        assert _first(asking.execute("SELECT k FROM made")) == [1]
        assert cursor.execute("SELECT k FROM of_module").fetchall() == [(7,)]
    _refusal(asking, view, "NOT_DURABLE", "A Python variable is known to this process only")
    _refusal(asking, "CREATE VIEW v AS SELECT * FROM df", "NOT_DURABLE")
    task = "CREATE CONTINUAL TASK c (k INT) ON INPUT made AS (INSERT INTO c SELECT k FROM df)"
    _refusal(asking, task, "NOT_DURABLE")
    _refusal(asking, "SUBSCRIBE TO (SELECT * FROM df)", "NOT_DURABLE")
    _refusal(asking, "SELECT * FROM number", "UNKNOWN_RELATION", "is a int, which holds no rows")
    _refusal(asking, "SELECT * FROM of_modul", "UNKNOWN_RELATION", 'Did you mean "of_module"?')
    _refusal(asking, "SELECT * FROM Df", "UNKNOWN_RELATION", 'Did you mean "df"?')
    _refusal(asking, "SELECT * FROM s.df", "UNKNOWN_SCHEMA")
    _refusal(asking, "INSERT INTO df VALUES (1)", "UNKNOWN_RELATION", "SHOW OBJECTS")
    shown = asking.execute("SHOW python_variables").fetchall()
    asking.execute("RESET ALL")
    assert asking.execute("SHOW python_variables").fetchall() == shown
    assert shown[0][1] == "true"
    asking.close()
