"""Statements that are read, and refused, with the place of what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.ast import Statement


def parsed(text: str) -> Statement:
    """The statement of a text."""
    return parse(Source(text, "<test>").whole())


@contextmanager
def refused(condition: str, place: str) -> Iterator[None]:
    """Inside, an error of this condition comes, at this piece of the text."""
    with pytest.raises(CtsqlError) as raised:
        yield
    problem = raised.value
    assert problem.span is not None
    assert (problem.condition, problem.span.text) == (condition, place)
