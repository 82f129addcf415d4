"""Files in queries and INSERT, and temporary views of the session."""

from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.table_folder import tree
from tests.scenarios.runner import expect_error


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with files in it."""
    made = tmp_path / "files"
    made.mkdir()
    monkeypatch.chdir(made)
    (made / "x.csv").write_text("id,name,price\n1,pen,1.5\n2,ink,8\n")
    (made / "y.jsonl").write_text('{"id": 1, "n": 3}\n{"id": 2, "n": 5}\n')
    (made / "empty").mkdir()
    (made / "nothing.csv").touch()
    return made


def _rows(con: Connection, sql: str) -> list[tuple[Any, ...]]:
    return sorted(con.execute(sql).fetchall())


def test_a_package_that_spark_lacks(con: Connection, tmp_path: Path) -> None:
    """Avro files need one: the error says which, and where it is to be put."""
    (tmp_path / "a.avro").write_bytes(b"Obj")
    missing = expect_error(con, f"SELECT * FROM '{tmp_path}/a.avro'", "NOT_SUPPORTED")
    assert 'data source "avro"' in missing.message
    assert "org.apache.spark:spark-avro_2.13:" in str(missing.hint)


def test_files_are_read(con: Connection, folder: Path) -> None:
    """By ending, by reader with options, and by pattern; relative, absolute and as a URI."""
    items = [(1, "pen", 1.5), (2, "ink", 8.0)]
    assert _rows(con, "SELECT * FROM 'x.csv'") == items
    assert _rows(con, f"SELECT * FROM '{folder}/x.csv'") == items
    assert _rows(con, f"SELECT x.* FROM '{(folder / 'x.csv').as_uri()}'") == items
    assert _rows(con, "SELECT name, n FROM 'x.csv' JOIN 'y.jsonl' AS y USING (id)") == [
        ("ink", 5),
        ("pen", 3),
    ]
    texts = "SELECT * FROM read_csv('x.csv', header => false, inferSchema => false)"
    assert ("id", "name", "price") in _rows(con, texts)
    typed = con.execute("SELECT * FROM read_csv('x.csv', schema => 'a BIGINT, b STRING, c FLOAT')")
    assert typed.types == ["bigint", "string", "float"]
    for kind in ("parquet", "orc", "json"):
        con.spark.createDataFrame(items, "id INT, name STRING, price DOUBLE").write.format(
            kind
        ).save(str(folder / "parts" / kind))
        assert _rows(con, f"SELECT id, name, price FROM read_{kind}('parts/{kind}')") == items
    assert _rows(con, "SELECT * FROM 'parts/parquet/*.parquet'") == items


def test_files_are_written_into_tables(con: Connection, folder: Path) -> None:
    """By CREATE TABLE AS, INSERT and MERGE."""
    con.execute("CREATE TABLE t AS SELECT id, name FROM 'x.csv'")
    assert con.execute("INSERT INTO t SELECT id + 2, name FROM 'x.csv'").status == "INSERT 0 2"
    con.execute(
        "MERGE INTO t USING 'y.jsonl' AS y ON t.id = y.id "
        "WHEN MATCHED THEN UPDATE SET name = CAST(y.n AS STRING)"
    )
    assert _rows(con, "SELECT * FROM t") == [(1, "3"), (2, "5"), (3, "pen"), (4, "ink")]


REFUSED = [
    ("SELECT * FROM 'no.csv'", "FILE_NOT_FOUND", "no.csv"),
    ("SELECT * FROM '*.parquet'", "FILE_NOT_FOUND", "*.parquet"),
    ("SELECT * FROM read_csv('empty')", "FILE_NOT_FOUND", "empty"),
    ("SELECT * FROM 'nothing.csv'", "FILE_FORMAT_UNKNOWN", "nothing.csv"),
    ("SELECT * FROM read_parquet('x.csv')", "FILE_FORMAT_UNKNOWN", "parquet"),
    ("SELECT nope FROM 'x.csv'", "UNKNOWN_COLUMN", "nope"),
    ("CREATE VIEW v AS SELECT * FROM 'x.csv'", "NOT_DURABLE", "a view"),
    ("CREATE MATERIALIZED VIEW v AS SELECT * FROM 'x.csv'", "NOT_DURABLE", "a view"),
    (
        "CREATE CONTINUAL TASK c (id INT) ON INPUT t AS "
        "(INSERT INTO c SELECT id FROM t JOIN 'x.csv' USING (id))",
        "NOT_DURABLE",
        "body",
    ),
    ("CREATE TABLE u AS SELECT * FROM 'no.csv'", "FILE_NOT_FOUND", "no.csv"),
    ("INSERT INTO t SELECT id FROM 'no.csv'", "FILE_NOT_FOUND", "no.csv"),
]


def test_refused(con: Connection, folder: Path) -> None:
    """The error names what and where; the warehouse is unchanged."""
    con.execute("CREATE TABLE t (id INT)")
    before = tree(Path(con.warehouse))
    for sql, condition, word in REFUSED:
        refused = expect_error(con, sql, condition)
        assert word in str(refused), sql
        assert refused.span is not None, sql
        assert tree(Path(con.warehouse)) == before, sql


def test_temporary_views_are_seen(con: Connection) -> None:
    """Those of the session, global ones too, by queries and INSERT; objects come first."""
    con.spark.sql("SELECT 7 AS k").createOrReplaceTempView("given")
    con.spark.sql("SELECT 8 AS k").createOrReplaceGlobalTempView("given_to_all")
    try:
        con.execute("CREATE TABLE t (k INT)")
        con.execute("INSERT INTO t SELECT given.k FROM given")
        con.execute("INSERT INTO t SELECT k FROM global_temp.given_to_all")
        assert _rows(con, "SELECT * FROM t") == [(7,), (8,)]
        for definition in (
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM given",
            "CREATE CONTINUAL TASK c (k INT) ON INPUT t AS (INSERT INTO c SELECT k FROM given)",
        ):
            with pytest.raises(CtsqlError, match="this process only"):
                con.execute(definition)
        con.execute("CREATE TABLE given (k INT)")
        assert _rows(con, "SELECT * FROM given") == []
    finally:
        con.spark.catalog.dropTempView("given")
        con.spark.catalog.dropGlobalTempView("given_to_all")
