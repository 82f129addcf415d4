"""Files that stand where a relation may."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.ast import Dml, FileRef, RelationRef, Select
from ctsql.planner.syntax.tokens.file_refs import ending_of


def _relations(text: str) -> tuple[RelationRef, ...]:
    statement = parse(Source(text).whole())
    assert isinstance(statement, Select | Dml)
    return (statement.query if isinstance(statement, Select) else statement.text).relations


def _file(text: str) -> FileRef:
    (ref,) = _relations(text)
    assert ref.file is not None
    return ref.file


@pytest.mark.parametrize(
    ("path", "ending"),
    [
        ("x.csv", ".csv"),
        ("s3a://b/day=1/*.CSV.gz", ".csv"),
        ("folder.parquet/", ".parquet"),
        ("a.csv/part-0", ""),
        ("x.tar.gz", ""),
        (".csv", ".csv"),
        ("csv", ""),
        ("x.ndjson.zst", ".ndjson"),
    ],
)
def test_endings(path: str, ending: str) -> None:
    """The ending of the last part counts, without that of a compression."""
    assert ending_of(path) == ending


def test_a_string_is_a_file_where_a_relation_may_stand() -> None:
    """After FROM, JOIN, USING and a comma; not in functions that have FROM inside."""
    text = (
        "SELECT trim(both 'a.csv' FROM 'b.csv'), extract(year FROM '2026-01-01') "
        "FROM 'c.csv' JOIN 'd.orc' AS d USING (k), 'e.json'"
    )
    found = [(r.span.text, r.parts, r.aliased) for r in _relations(text)]
    assert found == [
        ("'c.csv'", ("c",), False),
        ("'d.orc'", ("d",), True),
        ("'e.json'", ("e",), False),
    ]
    merge = "MERGE INTO t USING 'x.jsonl' AS s ON t.a = s.a WHEN MATCHED THEN DELETE"
    assert [r.span.text for r in _relations(merge)] == ["'x.jsonl'"]


def test_a_cte_of_the_same_name_is_not_meant() -> None:
    """A text in quotes is a file, whatever WITH names."""
    found = _relations("WITH `x.csv` AS (SELECT 1) SELECT * FROM 'x.csv', `x.csv`")
    assert [r.span.text for r in found] == ["'x.csv'"]


def test_options_are_passed_on() -> None:
    """Names in lower case, values as Spark's reader takes them."""
    file = _file("SELECT * FROM read_csv('x', Header => FALSE, sep => ';', maxColumns => -1)")
    assert (file.format, file.path) == ("csv", "x")
    assert file.options == (("header", "false"), ("sep", ";"), ("maxcolumns", "-1"))


def test_a_tsv_is_a_csv_with_tabs() -> None:
    """Unless the reader is named, which then needs the separator."""
    assert _file("SELECT * FROM 'x.tsv'").options == (("sep", "\t"),)
    assert _file("SELECT * FROM read_csv('x.tsv')").options == ()


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        ("SELECT * FROM 'x.xlsx'", "FILE_FORMAT_UNKNOWN", "'x.xlsx'"),
        ("SELECT * FROM ''", "SYNTAX_ERROR", "''"),
        ("SELECT * FROM read_csv(x)", "SYNTAX_ERROR", "read_csv(x)"),
        ("SELECT * FROM read_csv('x', header)", "SYNTAX_ERROR", ""),
        ("SELECT * FROM read_csv('x', header => NULL)", "SYNTAX_ERROR", "NULL"),
        ("SELECT * FROM read_csv('x',)", "SYNTAX_ERROR", None),
        ("SELECT * FROM read_csv('x', sep => 1 2)", "SYNTAX_ERROR", None),
        ("SELECT * FROM read_files('x', format => 'xml')", "INVALID_OPTION", None),
        ("SELECT * FROM read_csv('x', delimitr => ';')", "INVALID_OPTION", "delimitr"),
        ("SELECT * FROM read_csv('x', sep => ';', SEP => ',')", "INVALID_STATEMENT", "SEP"),
        (
            "SELECT * FROM read_csv('x', sep => ';', delimiter => ',')",
            "INVALID_STATEMENT",
            "delimiter",
        ),
        (
            "SELECT * FROM read_files('x', format => 'csv', format => 'json')",
            "INVALID_STATEMENT",
            "format",
        ),
    ],
)
def test_refused(text: str, condition: str, place: str | None) -> None:
    """With the place of what is wrong."""
    with pytest.raises(CtsqlError, match=condition) as refused:
        parse(Source(text).whole())
    assert place is None or (refused.value.span and refused.value.span.text) == place


@pytest.mark.parametrize(
    ("text", "kind", "options"),
    [
        ("read_files('x.csv')", "csv", ()),
        ("read_files('x/*', format => 'Parquet')", "parquet", ()),
        ("read_files('x', format => 'csv', header => true)", "csv", (("header", "true"),)),
        ("read_csv('x', INFERschema => true)", "csv", (("inferschema", "true"),)),
        ("read_orc('x', `orc.mask` => '')", "orc", (("orc.mask", ""),)),
    ],
)
def test_read_files(text: str, kind: str, options: tuple[tuple[str, str], ...]) -> None:
    """Databricks' word takes the format from an option, or from the ending."""
    file = _file(f"SELECT * FROM {text}")
    assert (file.format, file.options) == (kind, options)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM {}",
        "SELECT * FROM read_csv({})",
        "SELECT * FROM read_files({}, format => 'csv')",
        "COPY t FROM {} (FORMAT csv)",
        "COPY t TO {} (FORMAT csv)",
        "COPY (SELECT 1) TO {} (FORMAT csv)",
        "CREATE TABLE t LOCATION {}",
        "CREATE TABLE t USING delta LOCATION {}",
        "CREATE MATERIALIZED VIEW v WITH (LOCATION = {}) AS SELECT 1",
        "CREATE CONTINUAL TASK c WITH (LOCATION = {}) ON INPUT t AS (INSERT INTO c SELECT 1)",
    ],
)
@pytest.mark.parametrize("location", ["", " ", "file:", "file://", "file://w/x.csv", "FILE://w"])
def test_a_location_that_leads_elsewhere_is_refused(text: str, location: str) -> None:
    """Wherever one is given: empty is no folder, and a file: URI has no host."""
    parse(Source(text.format("'file:///w/x.csv'")).whole())
    with pytest.raises(CtsqlError, match=r"the location (is empty|has)"):
        parse(Source(text.format(f"'{location}'")).whole())
