"""Reads ``column = value, ...`` of UPDATE SET and of MERGE."""

from ctsql.catalog.errors import error, not_supported
from ctsql.catalog.names import fold
from ctsql.planner.syntax.ast import Assignment, NamedSource, Scope, SqlText
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import Cursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, span_of


def read_assignments(
    tokens: Tokens,
    target: NamedSource,
    scope: Scope,
    cte_names: frozenset[str] = frozenset(),
) -> tuple[Assignment, ...]:
    """Read what is behind SET; ``target`` may qualify a column, the values see ``scope``.

    Raises SYNTAX_ERROR, DUPLICATE_COLUMN, NOT_SUPPORTED for a field of a column.
    """
    assignments: list[Assignment] = []
    for group in cut_at_commas(tokens):
        if not group:
            raise syntax_error(tokens[0].span, "an assignment is missing after SET")
        cursor = Cursor(group, of="assignment")
        parts = cursor.dotted_name("a column")
        qualifier = tuple(fold(part.text) for part in parts[:-1])
        if not is_qualifier(qualifier, target):
            what = "setting a field of a column"
            raise not_supported(
                span_of(parts), what, hint="Set the whole column: SET s = named_struct(...)"
            )
        cursor.expect("=")
        value = read_value(cursor.until(len(cursor.tokens), "a value"), scope, cte_names)
        assignments.append(
            Assignment(column=parts[-1].text, span=span_of(parts), value=value, qualifier=qualifier)
        )
    return check_unique(assignments)


def check_unique(assignments: list[Assignment]) -> tuple[Assignment, ...]:
    """The assignments, no column among them twice (DUPLICATE_COLUMN)."""
    names: set[str] = set()
    for assignment in assignments:
        if fold(assignment.column) in names:
            raise error("DUPLICATE_COLUMN", span=assignment.span, column=assignment.column)
        names.add(fold(assignment.column))
    return tuple(assignments)


def is_qualifier(parts: tuple[str, ...], target: NamedSource) -> bool:
    """Whether folded names may stand before a column of a statement's target.

    The schema before the name of a target that is typed without one is not checked here.
    """
    is_bare = target.ref is not None and len(target.names) == 1
    return target.names[len(target.names) - len(parts) :] == parts or (
        is_bare and parts[1:] == target.names
    )


def read_value(
    tokens: Tokens, scope: Scope, cte_names: frozenset[str] = frozenset()
) -> SqlText | None:
    """A value; None for DEFAULT. The other arguments: as for :func:`read_assignments`."""
    if len(tokens) == 1 and tokens[0].upper == "DEFAULT":
        return None
    return analyse(
        span_of(tokens), form="predicate", tokens=tokens, cte_names=cte_names, outer=(scope,)
    )
