"""Statements that are read, and refused, with the place of what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.planner.syntax import parse_as
from ctsql.planner.syntax.ast import Statement

_Kind = TypeVar("_Kind", bound=Statement)


def parsed(text: str, kind: type[_Kind] = Statement) -> _Kind:  # type: ignore[assignment]
    """The statement of a text, which is of this kind."""
    return parse_as(kind, text, "<test>")


@contextmanager
def refused(condition: str, place: str) -> Iterator[None]:
    """Inside, an error of this condition comes, at this piece of the text."""
    with pytest.raises(CtsqlError) as raised:
        yield
    problem = raised.value
    assert problem.span is not None
    assert (problem.condition, problem.span.text) == (condition, place)
