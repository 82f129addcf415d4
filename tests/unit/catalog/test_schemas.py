"""Columns: found without regard to case, never twice, kept as JSON."""

import json

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog import schemas
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.schemas import Column, changes_between
from ctsql.catalog.spans import Source, Span

COLUMNS = (Column("Key", "int", nullable=False), Column("val", "string", comment="what it is"))

columns = st.builds(Column, st.text(), st.text(), st.booleans(), st.none() | st.text())


@given(columns)
def test_json_round_trip(column: Column) -> None:
    """A column comes back from its text as it was."""
    assert Column.from_json(json.loads(json.dumps(column.to_json()))) == column


def test_names_are_found_in_any_case() -> None:
    """As Spark does; the name keeps the case it was made with."""
    assert schemas.find(COLUMNS, "KEY") is COLUMNS[0]
    assert schemas.get(COLUMNS, "VAL", span=None) is COLUMNS[1]
    assert schemas.find(COLUMNS, "value") is None
    assert schemas.names(COLUMNS) == ("Key", "val")


def test_unknown_column_lists_and_suggests() -> None:
    """The error lists what there is and names what is near."""
    with pytest.raises(CtsqlError, match="UNKNOWN_COLUMN") as caught:
        schemas.get(COLUMNS, "vall", span=None)
    assert caught.value.detail == "The columns are: Key, val."
    assert caught.value.hint == 'Did you mean "val"?'


def test_duplicates_point_at_the_second() -> None:
    """Names that differ in case only are the same name."""
    text = Source("(a INT, b INT, A INT)")
    spans = [Span(text, 1, 2), Span(text, 8, 9), Span(text, 15, 16)]
    twice = [Column("a", "int"), Column("b", "int"), Column("A", "int")]
    with pytest.raises(CtsqlError, match="DUPLICATE_COLUMN") as caught:
        schemas.check_unique(twice, spans)
    assert caught.value.span == spans[2]
    with pytest.raises(CtsqlError) as caught:
        schemas.check_unique(twice, spans[:1])
    assert caught.value.span == spans[0]
    assert schemas.check_unique(twice[:2], spans) == tuple(twice[:2])


def test_ddl_quotes() -> None:
    """A comment's quotes and backslashes survive."""
    assert Column("a", "int", comment=r"it's \n").ddl() == r"a int COMMENT 'it\'s \\n'"


def test_what_lies_between_two_lists_of_columns() -> None:
    """Columns that come, go, change their name, type or NOT NULL; order and case do not count."""
    there = [Column("a", "int"), Column("b", "int"), Column("c", "int", nullable=False)]
    wanted = [Column("C", "int"), Column("A", "bigint"), Column("d", "string", comment="x")]
    assert changes_between(there, wanted) == [
        "ALTER COLUMN C DROP NOT NULL",
        "ALTER COLUMN A TYPE bigint",
        "ADD COLUMN d string",
        "DROP COLUMN b",
    ]
    assert changes_between(there, there[::-1]) == []
    wanted = [Column("a", "int"), Column("the b", "int", nullable=False), *there[2:]]
    assert changes_between(there, wanted) == [
        "RENAME COLUMN b TO `the b`",
        "ALTER COLUMN `the b` SET NOT NULL",
    ]
    assert changes_between(there[1:], there) == ["ADD COLUMN a int"]
