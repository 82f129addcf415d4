"""MAINTAIN and SHOW RETENTION as values."""

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse, split
from ctsql.planner.syntax.ast import Maintain, Show
from tests.helpers.parsed import refused


def _parsed(text: str) -> object:
    (span,) = split(Source(text, "test"))
    return parse(span)


CASES = [
    ("MAINTAIN", (None, False, None, False)),
    ("maintain all;", (None, True, None, False)),
    ("MAINTAIN t", (("t",), False, None, False)),
    ("MAINTAIN s.t RETAIN '1 day 2 hours'", (("s", "t"), False, 93_600_000, False)),
    ("MAINTAIN RETAIN '0 seconds' DRY RUN", (None, False, 0, True)),
    ("MAINTAIN ALL DRY RUN", (None, True, None, True)),
    ("MAINTAIN `all`", (("all",), False, None, False)),
    ("MAINTAIN dry", (("dry",), False, None, False)),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_maintain(text: str, expected: tuple[object, ...]) -> None:
    """The parts of the statement."""
    found = _parsed(text)
    assert isinstance(found, Maintain)
    target = None if found.target is None else found.target.parts
    assert (target, found.everything, found.retain_ms, found.dry_run) == expected


def test_show_retention() -> None:
    """With and without a name."""
    found = _parsed("SHOW RETENTION")
    assert isinstance(found, Show)
    assert found.target is None
    found = _parsed("SHOW RETENTION s.t")
    assert isinstance(found, Show)
    assert found.target is not None
    assert found.target.parts == ("s", "t")


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        ("MAINTAIN t RETAIN 7 DAYS", "SYNTAX_ERROR", "7"),
        ("MAINTAIN RETAIN '1 month'", "INVALID_OPTION", "'1 month'"),
        ("MAINTAIN RETAIN ''", "INVALID_OPTION", "''"),
        ("MAINTAIN t u", "SYNTAX_ERROR", "u"),
        ("MAINTAIN ALL t", "SYNTAX_ERROR", "t"),
        ("MAINTAIN t DRY", "SYNTAX_ERROR", "DRY"),
        ("SHOW RETENTION t u", "SYNTAX_ERROR", "u"),
    ],
)
def test_refused(text: str, condition: str, place: str) -> None:
    """With the place."""
    with refused(condition, place):
        _parsed(text)
