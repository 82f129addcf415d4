"""COPY is read, with its options."""

import pytest

from ctsql.planner.syntax import rewrite
from ctsql.planner.syntax.ast import CopyFrom, CopyTo, CreateTable, Explain
from tests.helpers.parsed import parsed, refused


def test_copy_from() -> None:
    """Columns, format and options; names in lower case, PostgreSQL's NULL is Spark's nullValue."""
    text = (
        "COPY s.t (a, `b c`) FROM 'in/*.txt' WITH (FORMAT CSV, HEADER, DELIMITER ';', NULL = 'x')"
    )
    read = parsed(text, CopyFrom)
    assert read.target.parts == ("s", "t")
    assert [c.name for c in read.columns] == ["a", "b c"]
    assert (read.file.path, read.file.format) == ("in/*.txt", "csv")
    assert dict(read.file.options) == {"header": "true", "delimiter": ";", "nullvalue": "x"}


def test_copy_to() -> None:
    """A table, or a query, also as of a time."""
    read = parsed("COPY t TO 'out.parquet' (OVERWRITE true, compression => 'zstd')", CopyTo)
    assert (read.file.format, read.overwrite) == ("parquet", True)
    assert dict(read.file.options) == {"compression": "zstd"}
    assert rewrite(read.select.query, relation=lambda _: "v").text == "SELECT * FROM v"
    read = parsed("COPY (SELECT 1 AS a AS OF 5) TO 'out' (FORMAT json)", CopyTo)
    assert (read.select.as_of, read.select.query.span.text) == (5, "SELECT 1 AS a")
    assert not read.overwrite


def test_a_view_may_be_named_copy() -> None:
    """What is asked about it is not taken for the statement."""
    read = parsed("EXPLAIN ANALYZE copy", Explain)
    assert (read.analyze, read.target and read.target.parts) == (True, ("copy",))


def test_a_table_named_files() -> None:
    """A query of a table named files or kafka stays one."""
    for name in ("files", "kafka"):
        read = parsed(f"CREATE TABLE t FROM {name} SELECT a", CreateTable)
        assert read.query is not None


@pytest.mark.parametrize(
    ("text", "value"),
    [("off", "false"), ("'FALSE'", "false"), ("0", "false"), ("ON", "true"), ("'yes'", "true")],
)
def test_switches_have_several_words(text: str, value: str) -> None:
    """As PostgreSQL has them: HEADER is looked at by more than Spark, in one spelling."""
    read = parsed(f"COPY t FROM 'x.csv' (HEADER {text})", CopyFrom)
    assert dict(read.file.options) == {"header": value}
    made = parsed(f"COPY t TO 'x.csv' (OVERWRITE {text})", CopyTo)
    assert made.overwrite is (value == "true")


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        ("COPY t", "SYNTAX_ERROR", ""),
        ("COPY t FROM x", "SYNTAX_ERROR", "x"),
        ("COPY t FORM 'x.csv'", "SYNTAX_ERROR", "FORM"),
        ("COPY t (a) TO 'x.csv'", "SYNTAX_ERROR", "TO"),
        ("COPY (DELETE FROM t) TO 'x.csv'", "SYNTAX_ERROR", "DELETE"),
        ("COPY () TO 'x.csv'", "SYNTAX_ERROR", "("),
        ("COPY t FROM 'x.csv' 5", "SYNTAX_ERROR", "5"),
        ("COPY t FROM 'x' (FORMAT xml)", "INVALID_OPTION", "xml"),
        ("COPY t FROM 'x.csv' (HEADER, header false)", "INVALID_STATEMENT", "header"),
        ("COPY t FROM 'x.csv' (HEADER maybe)", "SYNTAX_ERROR", "maybe"),
        ("COPY t TO 'x.csv' (OVERWRITE 'if it must')", "SYNTAX_ERROR", "'if it must'"),
        ("COPY t FROM 'x.csv' (OVERWRITE true)", "INVALID_STATEMENT", "OVERWRITE"),
        ("COPY t FROM 'x.csv' (HAEDER true)", "INVALID_OPTION", "HAEDER"),
        ("COPY t TO 'x.parquet' (compresion 'zstd')", "INVALID_OPTION", "compresion"),
        ("COPY t TO 'x'", "FILE_FORMAT_UNKNOWN", "'x'"),
        ("CREATE TABLE t (a INT) FROM FILES 'x'", "NOT_SUPPORTED", "FROM"),
        ("CREATE TABLE t (a INT) FROM KAFKA (BROKER 'x')", "NOT_SUPPORTED", "FROM"),
    ],
)
def test_refused(text: str, condition: str, place: str) -> None:
    """With the place of what is wrong."""
    with refused(condition, place):
        parsed(text)
