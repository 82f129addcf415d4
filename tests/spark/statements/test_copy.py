"""COPY: files into tables in one commit, and queries into files."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.table_folder import folder, tree, versions
from tests.scenarios.runner import expect_error


@pytest.fixture
def table(con: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """A table of items, in a current directory with files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("name,price,id\npen,1.5,007\nink,8,010\n")
    (tmp_path / "bare.csv").write_text("008;pan;1.75\n")
    (tmp_path / "y.jsonl").write_text('{"price": 3, "id": "020", "name": null, "more": [1]}\n')
    (tmp_path / "bad.csv").write_text("id,name,price\n1,pen,1.5\n2,ink,x\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("a")
    con.execute("CREATE TABLE t (id STRING, name STRING, price DECIMAL(10, 2))")
    return con


def _rows(con: Connection, sql: str = "SELECT * FROM t") -> list[tuple[Any, ...]]:
    return sorted(con.execute(sql).fetchall())


def _kept() -> dict[str, int]:
    """Every file but what a write of Spark's that failed leaves in a table's folder."""
    return {path: size for path, size in tree(Path()).items() if "part-" not in path}


def test_from(table: Connection) -> None:
    """By name where the file has names; with the table's types; each one commit, rows told."""
    before = versions(folder(table, "t"))
    loaded = table.execute("COPY t FROM 'x.csv'")
    assert (loaded.status, loaded.rowcount) == ("COPY 2", 2)
    assert len(versions(folder(table, "t"))) == len(before) + 1
    table.execute("COPY t FROM 'bare.csv' (HEADER false, DELIMITER ';')")
    table.execute("COPY t (id, price) FROM 'y.jsonl'")
    assert _rows(table) == [
        ("007", "pen", Decimal("1.50")),
        ("008", "pan", Decimal("1.75")),
        ("010", "ink", Decimal("8.00")),
        ("020", None, Decimal("3.00")),
    ]


def test_parquet_and_nested_json(table: Connection) -> None:
    """Fields of structs are found by name, whatever their order in the file."""
    table.execute("CREATE TABLE n (s STRUCT<b: INT, a: STRING>, d DATE)")
    Path("n.json").write_text('{"d": "2026-01-02", "s": {"a": "x", "b": 1}}\n')
    table.execute("COPY n FROM 'n.json'")
    table.execute("COPY n TO 'n.parquet'")
    table.execute("COPY n FROM 'n.parquet'")
    found = "SELECT s.a, s.b, CAST(d AS STRING) FROM n"
    assert _rows(table, found) == [("x", 1, "2026-01-02")] * 2


REFUSED = (
    ("COPY t FROM 'bad.csv'", "DATA_ERROR", "x"),
    ("COPY t FROM 'y.jsonl'", "COLUMN_COUNT_MISMATCH", "more"),
    ("COPY t (id, nope) FROM 'x.csv'", "UNKNOWN_COLUMN", "nope"),
    ("COPY t (id, ID) FROM 'x.csv'", "DUPLICATE_COLUMN", "id"),
    ("COPY t FROM 'bare.csv'", "UNKNOWN_COLUMN", "id"),
    ("COPY t FROM 'bare.csv' (HEADER false)", "COLUMN_COUNT_MISMATCH", "1 column(s), 3"),
    ("COPY t FROM 'no.csv'", "FILE_NOT_FOUND", "no.csv"),
    ("COPY nope FROM 'x.csv'", "UNKNOWN_RELATION", "nope"),
    ("COPY v FROM 'x.csv'", "OUTPUT_OWNED", "v"),
    ("COPY t TO 'x.csv'", "FILE_EXISTS", "x.csv"),
    ("COPY t TO 'full' (FORMAT csv, OVERWRITE true)", "FILE_EXISTS", "Spark did not write"),
    ("COPY t TO 'x.csv/' (FORMAT csv, OVERWRITE true)", "FILE_EXISTS", "a file"),
    ("COPY (SELECT CAST(raise_error('no') AS INT)) TO 'never.csv'", "DATA_ERROR", "no"),
    ("COPY (SELECT array(1) AS a) TO 'never.csv'", "INVALID_STATEMENT", "ARRAY"),
)


def test_refused(table: Connection) -> None:
    """Nothing is committed, and nothing is left beside the files."""
    table.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    for sql, condition, word in REFUSED:
        before = _kept()
        assert word in str(expect_error(table, sql, condition)), sql
        assert _kept() == before, sql


def test_to_a_file(table: Connection) -> None:
    """One file, in the order of the query; another only with OVERWRITE; the ending compresses."""
    table.execute("COPY t FROM 'x.csv'")
    written = table.execute("COPY (SELECT id, price FROM t ORDER BY id DESC) TO 'sub/o.csv'")
    assert (written.status, written.rowcount) == ("COPY 2", 2)
    assert Path("sub/o.csv").read_text() == "id,price\n010,8.00\n007,1.50\n"
    assert [p.name for p in Path("sub").iterdir()] == ["o.csv"]
    table.execute("COPY (SELECT 1 AS a) TO 'sub/o.csv' (OVERWRITE true, HEADER false)")
    assert Path("sub/o.csv").read_text() == "1\n"
    table.execute("COPY (SELECT * FROM t WHERE false) TO 'none.csv'")
    assert Path("none.csv").read_text() == "id,name,price\n"
    table.execute("COPY t TO 'o.json.gz'")
    assert Path("o.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert _rows(table, "SELECT id FROM 'o.json.gz'") == [("007",), ("010",)]


def test_to_a_folder(table: Connection) -> None:
    """As Spark writes it; replaced only with OVERWRITE."""
    table.execute("COPY t FROM 'x.csv'")
    table.execute("COPY t TO 'out' (FORMAT parquet)")
    assert _rows(table, "SELECT id FROM read_parquet('out')") == [("007",), ("010",)]
    with pytest.raises(CtsqlError, match="FILE_EXISTS"):
        table.execute("COPY t TO 'out' (FORMAT parquet)")
    table.execute("COPY (SELECT 1 AS id) TO 'out' (FORMAT parquet, OVERWRITE true)")
    assert _rows(table, "SELECT id FROM read_parquet('out')") == [(1,)]
    with pytest.raises(CtsqlError, match="DATA_ERROR"):
        table.execute(
            "COPY (SELECT 1 DIV (id - 1) AS id FROM read_parquet('out')) TO 'out'"
            " (FORMAT parquet, OVERWRITE true)"
        )
    assert _rows(table, "SELECT id FROM read_parquet('out')") == [(1,)], "what was there stays"
    table.execute(
        "COPY (SELECT id + 1 AS id FROM read_parquet('out')) TO 'out/'"
        " (FORMAT parquet, OVERWRITE true)"
    )
    assert _rows(table, "SELECT id FROM read_parquet('out')") == [(2,)], "read and replaced"
    assert not [path for path in Path().iterdir() if path.name.startswith("_ctsql-")]


def test_in_a_transaction_and_read_only(table: Connection) -> None:
    """FROM is a part of a transaction, TO reads it; read-only TO works, and FROM does not."""
    table.begin()
    table.execute("COPY t FROM 'x.csv'")
    assert table.execute("COPY t TO 'within.csv'").rowcount == 2
    table.rollback()
    assert _rows(table) == []
    assert table.execute("SELECT count(*) FROM 'within.csv'").fetchall() == [(2,)]
    reader = type(table)(table.warehouse, spark=table.spark, read_only=True)
    assert reader.execute("COPY t TO 'ro.csv'").status == "COPY 0"
    with pytest.raises(CtsqlError, match="READ_ONLY_MODE"):
        reader.execute("COPY t FROM 'x.csv'")
    reader.close()


def test_csv_files_with_other_orders_of_columns(con: Connection, tmp_path: Path) -> None:
    """Spark would read the second file by the header of the first: that is refused."""
    con.execute("CREATE TABLE o (id INT, n INT)")
    (tmp_path / "a.csv").write_text("id,n\n1,10\n")
    (tmp_path / "b.csv").write_text("n,id\n20,2\n")
    with pytest.raises(CtsqlError, match="header") as refused:
        con.execute(f"COPY o FROM '{tmp_path}/*.csv'")
    assert refused.value.condition == "DATA_ERROR"
    assert con.execute("SELECT * FROM o").fetchall() == []
    (tmp_path / "b.csv").write_text("id,n\n2,20\n")
    con.execute(f"COPY o FROM '{tmp_path}/*.csv'")
    assert sorted(con.execute("SELECT * FROM o").fetchall()) == [(1, 10), (2, 20)]


ODD = """SELECT * FROM VALUES
    (1, 'a "quoted" text, with\nlines', TIMESTAMP '9999-12-31 23:59:59.999999', 1.50),
    (2, '', TIMESTAMP '1880-01-01 00:00:00.000001', NULL),
    (3, NULL, NULL, -0.01),
    (4, ' blanks ', NULL, 0.00),
    (5, 'c:\\\\', TIMESTAMP '2026-10-25 01:30:00', 99.99) AS odd(id, s, at, d)"""


def test_what_is_written_comes_back(
    con: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotes, line breaks, blanks, empty texts and NULLs, microseconds; in queries as well."""
    monkeypatch.chdir(tmp_path)
    con.execute(f"CREATE TABLE odd AS {ODD}")
    for kind in ("csv", "json", "parquet", "orc"):
        con.execute(f"COPY odd TO 'odd.{kind}'")
        con.execute(f"CREATE TABLE from_{kind} (id INT, s STRING, at TIMESTAMP, d DECIMAL(4, 2))")
        assert con.execute(f"COPY from_{kind} FROM 'odd.{kind}'").status == "COPY 5"
        for one, other in (  # of as many rows
            ("SELECT * FROM odd", f"SELECT * FROM from_{kind}"),
            (f"SELECT id, s FROM 'odd.{kind}'", "SELECT id, s FROM odd"),
        ):
            assert con.execute(f"{one} EXCEPT ALL {other}").fetchall() == [], kind


def test_files_of_others_are_read_as_the_rfc_says(
    con: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubled quotes, and backslashes that are letters; a short line is an error in a query too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rfc.csv").write_text('id,s\n1,"a""b"\n2,c:\\dir\n3,"c:\\"\n4,"x\ny"\n5,\n6,""\n')
    found = con.execute("SELECT * FROM 'rfc.csv' ORDER BY id").fetchall()
    assert [s for _, s in found] == ['a"b', "c:\\dir", "c:\\", "x\ny", None, ""]
    (tmp_path / "short.csv").write_text("id,s\n1\n2,b\n")
    expect_error(con, "SELECT * FROM 'short.csv'", "DATA_ERROR")
    lenient = "SELECT * FROM read_csv('short.csv', mode => 'PERMISSIVE')"
    assert sorted(con.execute(lenient).fetchall()) == [(1, None), (2, "b")]
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "a.csv").write_text("id,s\n1,a\n")
    (tmp_path / "many" / "b.csv").write_text("s,id\nb,2\n")
    with pytest.raises(CtsqlError, match="does not conform"):
        con.execute("SELECT * FROM 'many/*.csv'").fetchall()
