"""Reads ``column = value, ...`` of UPDATE SET and of MERGE."""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.errors import error, not_yet
from ctsql.catalog.names import fold
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import Assignment, SqlText
from ctsql.planner.syntax.tokens.sqltext import analyse, without
from ctsql.planner.syntax.tokens.token_reader import Cursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, span_of


def read_assignments(
    tokens: Tokens, qualifiers: tuple[str, ...], cte_names: frozenset[str] = frozenset()
) -> tuple[Assignment, ...]:
    """Read what is behind SET; ``qualifiers`` may stand before a column.

    Raises SYNTAX_ERROR, DUPLICATE_COLUMN, NOT_SUPPORTED_YET for a field of a column.
    """
    assignments: list[Assignment] = []
    for group in cut_at_commas(tokens):
        if not group:
            raise syntax_error(tokens[0].span, "an assignment is missing after SET")
        assignments.append(_assignment(Cursor(group, of="assignment"), qualifiers, cte_names))
    return check_unique(assignments)


def check_unique(assignments: list[Assignment]) -> tuple[Assignment, ...]:
    """The assignments, no column among them twice (DUPLICATE_COLUMN)."""
    names: set[str] = set()
    for assignment in assignments:
        if fold(assignment.column) in names:
            raise error("DUPLICATE_COLUMN", span=assignment.span, column=assignment.column)
        names.add(fold(assignment.column))
    return tuple(assignments)


def cut_from_assignments(
    assignments: Sequence[Assignment], cuts: Sequence[Span]
) -> tuple[Assignment, ...]:
    """The assignments without the schemas that are written in front of columns."""
    return tuple(replace(a, value=without(a.value, cuts) if a.value else None) for a in assignments)


def _assignment(
    cursor: Cursor, qualifiers: tuple[str, ...], cte_names: frozenset[str]
) -> Assignment:
    parts = cursor.dotted_name("a column")
    if len(parts) > 1 and fold(parts[-2].text) not in {fold(q) for q in qualifiers}:
        what = "setting a field of a column"
        raise not_yet(span_of(parts), what, "Set the whole column: SET s = named_struct(...)")
    cursor.expect("=")
    value = read_value(cursor.until(len(cursor.tokens), "a value"), cte_names)
    return Assignment(column=parts[-1].text, span=span_of(parts), value=value)


def read_value(tokens: Tokens, cte_names: frozenset[str] = frozenset()) -> SqlText | None:
    """A value; None for DEFAULT. ``cte_names``: as for :func:`read_assignments`."""
    if len(tokens) == 1 and tokens[0].upper == "DEFAULT":
        return None
    return analyse(span_of(tokens), form="predicate", tokens=tokens, cte_names=cte_names)
