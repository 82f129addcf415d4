"""Statements that are nested deeply, or have many operators, are read as any other."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from ctsql.catalog.errors import CtsqlError, NotSupported
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Source
from ctsql.connection.open_warehouse import RECURSION_LIMIT
from ctsql.planner.ivm import ChangePlan, change_plan
from ctsql.planner.syntax import parse

TABLE = {"t": (Column("a", "int"), Column("s", "string"), Column("b", "boolean"))}


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    """The limit that a connection sets."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION_LIMIT)
    yield
    sys.setrecursionlimit(before)


def _chain(term: str, operator: str) -> Callable[[int], str]:
    return lambda count: f" {operator} ".join([term] * count)


def _nest(before: str, value: str, after: str) -> Callable[[int], str]:
    return lambda depth: before * depth + value + after * depth


CHAINS = {
    "+": _chain("a", "+"),
    "||": _chain("s", "||"),
    "AND": _chain("a <> 1", "AND"),
    "OR": _chain("a = 1", "OR"),
}
NESTED = {
    "()": _nest("(", "a", ")"),
    "call": _nest("replace(", "s", ", 'a', 'b')"),
    "CASE": _nest("CASE WHEN a = 1 THEN 1 ELSE ", "0", " END"),
    "CAST": _nest("CAST(", "a", " AS INT)"),
    "NOT": _nest("NOT ", "b", ""),
    "-": _nest("- ", "a", ""),
    "struct": _nest("struct(", "a AS x", ")"),
    "array": _nest("array(", "a", ")"),
    "date": _nest("date(", "s", ")"),
    "AND ()": _nest("(b AND ", "b", ")"),
}
DEEP = [(f"{name} {count}", shape(count)) for name, shape in CHAINS.items() for count in [2_000]]
DEEP += [(f"{name} {depth}", shape(depth)) for name, shape in NESTED.items() for depth in [300]]


@pytest.mark.parametrize("expression", [e for _, e in DEEP], ids=[name for name, _ in DEEP])
def test_deep_expressions_are_followed(expression: str) -> None:
    """A view of them has a change plan."""
    query = f"SELECT {expression} AS x FROM t"
    parse(Source(f"CREATE MATERIALIZED VIEW v AS {query}").whole())
    assert isinstance(change_plan(query, TABLE), ChangePlan)


def test_deep_subqueries_are_read() -> None:
    """Where one stands in another, 100 deep."""
    query = _nest("SELECT a FROM (", "SELECT a FROM t", ")")(100)
    parse(Source(query).whole())
    assert isinstance(change_plan(query, TABLE), ChangePlan)


@pytest.mark.parametrize("shape", NESTED.values(), ids=NESTED)
def test_what_is_too_deep_is_refused_by_name(shape: Callable[[int], str]) -> None:
    """No RecursionError leaves the parser, at any depth."""
    for depth in (1_000, 5_000):
        query = f"SELECT {shape(depth)} AS x FROM t"
        with suppress(NotSupported):
            parse(Source(query).whole())
        plan = change_plan(query, TABLE)
        assert isinstance(plan, ChangePlan) or plan.reason == "TEXT_NOT_READ"


@pytest.mark.parametrize("text", ["SELECT '\ud800'", "SELECT \udcff", "\udc80 SELECT 1"])
def test_what_is_no_character_is_refused_at_its_place(text: str) -> None:
    """Spark could not be sent it."""
    with pytest.raises(CtsqlError, match="is not a character") as refused:
        parse(Source(text).whole())
    assert refused.value.span is not None
    assert "\ud800" <= refused.value.span.text <= "\udfff"
