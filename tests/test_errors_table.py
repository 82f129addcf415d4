"""The table of conditions: in order, in style, and used as it says."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ctsql.catalog import conditions
from ctsql.catalog.errors import CONDITIONS, Condition, CtsqlError, error

ROOT = Path(__file__).resolve().parent.parent
ROWS = list(CONDITIONS.values())


@dataclass(frozen=True)
class Call:
    """A call of ``error(...)`` in the source: its condition (None when computed) and keywords."""

    place: str
    condition: str | None
    keywords: frozenset[str]
    open_ended: bool  # has a **mapping


@cache
def _calls() -> tuple[Call, ...]:
    """Those of the product; found when the first test asks, as parsing it takes seconds."""
    return tuple(_found_calls())


def _plain() -> list[Call]:
    return [call for call in _calls() if call.condition is not None and not call.open_ended]


def _found_calls() -> Iterator[Call]:
    for folder in ("catalog", "planner", "runtime", "ctsql"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.resolve() != path:
                continue  # by one of the links in ctsql/
            text = path.read_text()
            if "error(" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and _is_error(node.func):
                    yield _call(node, f"{path.relative_to(ROOT)}:{node.lineno}")


def _is_error(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr == "error" and ast.unparse(function.value) == "errors"
    return isinstance(function, ast.Name) and function.id == "error"


def _call(node: ast.Call, place: str) -> Call:
    first = node.args[0] if node.args else None
    named = isinstance(first, ast.Constant) and isinstance(first.value, str)
    keywords = {keyword.arg for keyword in node.keywords}
    return Call(
        place=place,
        condition=first.value if named else None,  # type: ignore[union-attr]
        keywords=frozenset(k for k in keywords if k is not None) - {"span", "cause"},
        open_ended=None in keywords,
    )


def test_sorted_and_unique() -> None:
    """One entry a condition, in the order of names in its text; no name stands in two."""
    written: list[str] = []
    for text in (conditions.STATEMENTS, conditions.OBJECTS, conditions.RUNNING):
        here = re.findall(r"^([A-Z0-9_]+)", text, re.MULTILINE)
        assert here == sorted(set(here))
        written += here
    assert written == list(CONDITIONS)


FIRST_WORDS_THAT_KEEP_THEIR_CAPITAL = ("Java", "Delta", "Spark", "T")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_is_well_formed(row: Condition) -> None:
    """Names, SQLSTATE and class; a message is one short line, details and hints are sentences.

    Given exactly its parameters, every row becomes an error of its class.
    """
    assert re.fullmatch(r"[A-Z]+(_[A-Z]+)+", row.name)
    assert row.name != "OTHER"
    assert re.fullmatch(r"[0-9A-Z]{5}", row.sqlstate)
    assert issubclass(row.kind, CtsqlError)
    assert row.kind is not CtsqlError
    message = row.message
    first = re.split(r"\W", message, maxsplit=1)[0]
    assert first in FIRST_WORDS_THAT_KEEP_THEIR_CAPITAL or not first[:1].isupper()
    assert not message.endswith((".", "!", ":"))
    assert "\n" not in message
    assert not re.search(r"exception|traceback|None|py4j|dataframe", message, re.IGNORECASE)
    assert len(message) <= 80
    if row.detail and not row.detail.startswith("{"):
        assert row.detail[0].isupper()
        assert row.detail.endswith(".")
    if row.hint and not row.hint.startswith("{"):
        assert row.hint[0].isupper()
    given: dict[str, Any] = dict.fromkeys(row.parameters, "x")
    made = error(row.name, **given)
    assert type(made) is row.kind
    assert str(made).startswith(f"[{row.name}] ")


def test_wrong_parameters_are_refused() -> None:
    """A parameter too many or too few shows at once; a whole detail or hint may be left out."""
    with pytest.raises(ValueError, match="DUPLICATE_COLUMN takes"):
        error("DUPLICATE_COLUMN")
    with pytest.raises(ValueError, match="DUPLICATE_COLUMN takes"):
        error("DUPLICATE_COLUMN", column="a", table="t")
    with pytest.raises(ValueError, match="INVALID_STATEMENT takes"):
        error("INVALID_STATEMENT", detail="a fact")
    short = error("INVALID_STATEMENT", message="no")
    assert (short.detail, short.hint) == (None, None)


def test_calls_are_found() -> None:
    """The tests below would pass without a word on an empty list."""
    assert len(_plain()) > 30


def test_calls_give_what_the_template_takes() -> None:
    """A raise that is hardly ever reached must not fail with a ValueError when it is."""
    wrong = []
    for call in _plain():
        row = CONDITIONS.get(call.condition or "")
        if row is None or not row.parameters - row.optional <= call.keywords <= row.parameters:
            wrong.append(f"{call.place}: {call.condition}")
    assert wrong == []


def test_every_call_names_its_condition() -> None:
    """A computed condition or ``**parameters`` cannot be checked by reading."""
    assert [c.place for c in _calls() if c.condition is None or c.open_ended] == []


def test_every_condition_is_raised() -> None:
    """A condition that nothing raises is a promise nobody keeps."""
    assert sorted(set(CONDITIONS) - {call.condition for call in _calls()}) == []
