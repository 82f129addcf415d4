"""Text and types on their way between PostgreSQL and Spark; no server."""

import doctest

import pytest
from ctsql_postgres import dialect, values
from ctsql_postgres.catalog import numbered
from ctsql_postgres.values import column_of

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source

TEXTS = {
    'SELECT "a""b" FROM "S"."t"': 'SELECT `a"b` FROM `S`.`t`',
    "SELECT 'it''s', '\\d', E'a\\n\\'b', $$x'y$$, $q$z$q$": (
        "SELECT 'it\\'s', '\\\\d', 'a\n\\'b', 'x\\'y', 'z'"
    ),
    "SELECT $2, $1, '$3' /* $4 */ -- $5": "SELECT ?, ?, '$3'",
    "SELECT x::int8, y::pg_catalog.text, CAST(z AS double precision)": (
        "SELECT x::BIGINT, y::STRING, CAST(z AS DOUBLE)"
    ),
    "SELECT a::numeric, a::numeric(5, 2), a::varchar(3), a::character varying": (
        "SELECT a::DECIMAL(38, 18), a::numeric(5, 2), a::varchar(3), a::STRING"
    ),
    "SELECT timestamp with time zone '2026-01-01', a::timestamp without time zone": (
        "SELECT TIMESTAMP '2026-01-01', a::TIMESTAMP_NTZ"
    ),
    "SELECT text AS int8, (a AS text) FROM t AS text": (
        "SELECT text AS int8, (a AS text) FROM t AS text"
    ),
    "SELECT r'\\d', X'00', like 'a'": "SELECT r'\\d', X'00', like 'a'",
    "SELECT `a'b`, 1.5e3, x -> 'y'": "SELECT `a'b`, 1.5e3, x -> 'y'",
}


@pytest.mark.parametrize("given", TEXTS)
def test_words_are_translated(given) -> None:
    """Names, strings, parameters and types; all else is as typed."""
    (statement,) = dialect.split(given)
    assert statement.text == TEXTS[given]


def test_parameters_have_their_numbers() -> None:
    """They are given in the order in which the text has them."""
    (statement,) = dialect.split("SELECT $2, $1, $2 LIMIT $3")
    assert statement.parameters == (2, 1, 2, 3)
    assert statement.hints == {3: "int8"}


def test_statements_are_split() -> None:
    """At semicolons outside parentheses, strings and comments."""
    text = (
        "; SELECT ';' ;/* ; */ CREATE CONTINUAL TASK a ON INPUT b AS (DELETE FROM a; x;);; -- ;\n"
    )
    assert [s.text.split()[0] for s in dialect.split(text)] == ["SELECT", "CREATE"]


def test_places_lead_back() -> None:
    """A word of the new text is at its place in the client's."""
    text = "/* é */ SELECT 'it''s', \"q\", $1, a::pg_catalog.int8, wrong FROM t"
    (statement,) = dialect.split(text)
    start = statement.text.index("wrong")
    place = statement.place_of(Source(statement.text).whole().part(start, start + 5))
    assert place is not None
    assert place.text == "wrong"
    assert place.source.text == text
    assert statement.place_of(Source("another").whole()) is None


@pytest.mark.parametrize("text", ["SELECT 'a", 'SELECT "a', "SELECT /* a", "SELECT E'a\\'", "$$a"])
def test_what_is_not_closed(text) -> None:
    """It is an error where it opens."""
    with pytest.raises(CtsqlError, match="is not closed"):
        dialect.split(text)


def test_types_have_names_in_any_case() -> None:
    """A task's columns have their types as typed."""
    names = {
        kind: (column_of(kind).type.name, column_of(kind).is_array)
        for kind in (
            "INT", "string", "VARCHAR(5)", "char(3)", "DECIMAL(8, 2)", "timestamp_ntz", "variant",
            "Array<Decimal(3,1)>", "array<array<int>>", "array<struct<a:int>>", "void",
            "interval day to second", "interval year to month", "time(6)", "tinyint",
        )
    }  # fmt: skip
    assert names == {
        "INT": ("int4", False), "string": ("text", False), "VARCHAR(5)": ("text", False),
        "char(3)": ("text", False), "DECIMAL(8, 2)": ("numeric", False),
        "timestamp_ntz": ("timestamp", False), "variant": ("json", False),
        "Array<Decimal(3,1)>": ("numeric", True), "array<array<int>>": ("json", False),
        "array<struct<a:int>>": ("json", False), "void": ("text", False),
        "interval day to second": ("interval", False), "time(6)": ("time", False),
        "interval year to month": ("text", False), "tinyint": ("int2", False),
    }  # fmt: skip


def test_numbers_of_objects_are_their_own() -> None:
    """Each has one, the same in every process."""
    keys = [f"object {n}" for n in range(20_000)]
    numbers = numbered(keys)
    assert len(set(numbers.values())) == len(keys)
    assert numbers == numbered(reversed(keys))
    assert all(0x4000 <= number < 2**31 for number in numbers.values())


def test_examples_in_docstrings_hold() -> None:
    """An example in a docstring is run."""
    failed, attempted = doctest.testmod(values)
    assert attempted > 0
    assert failed == 0
