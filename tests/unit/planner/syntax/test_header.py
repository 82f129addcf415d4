"""The grammar of headers: it is read in each process that meets a definition."""

from ctsql.planner.syntax.statements.header import _grammar

RULES_MAX = 150


def test_optional_parts_do_not_multiply() -> None:
    """Written out in one rule, they make four hundred, which take seven times as long to read."""
    assert len(_grammar().rules) < RULES_MAX
