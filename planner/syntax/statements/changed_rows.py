"""UPDATE and DELETE as a query of the rows that they change.

    DELETE FROM t AS a WHERE p           -->  SELECT * FROM t AS a WHERE p
    UPDATE t SET v = x, w = y WHERE p    -->  FROM t SELECT *, (x) AS ..., (y) AS ... WHERE p

The query is the user's text, so errors have the user's places.
"""

from collections.abc import Callable
from dataclasses import replace

from ctsql.catalog.names import fold
from ctsql.catalog.reserved_columns import VALUE_
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import Assignment, Dml, Edit, NamedSource, SqlText
from ctsql.planner.syntax.statements.merges import read_assignments
from ctsql.planner.syntax.tokens import tokenizer as tk


def changed_rows(
    statement: Dml, default_of: Callable[[str], str]
) -> tuple[SqlText, tuple[Assignment, ...]]:
    """The query, and the assignments of an UPDATE; value n is the column ``VALUE_n``, at the end.

    ``default_of`` returns a column's default as SQL. Raises NOT_SUPPORTED for a column's field.
    """
    tokens = tk.tokenise(statement.span)
    start = next(i for i, t in enumerate(tokens) if t.start == statement.target.span.start)
    if statement.verb == "DELETE":
        select = Edit(span=tk.span_of(tokens[start - 2 : start]), text="SELECT * FROM")
        return _edited(statement.text, [select]), ()
    words = [(t.upper, i) for i, t in tk.at_depth_0(tokens) if i > start]
    place = next(i for word, i in words if word == "SET")
    stop = next((i for word, i in words if word == "WHERE" and i > place), len(tokens))
    target = statement.target
    names = [tokens[place - 1].text] if target.aliased else target.parts
    own = NamedSource(
        names=tuple(map(fold, names)), columns=(target,), ref=None if target.aliased else target
    )
    assigned = tokens[place + 1 : stop]
    assignments = read_assignments(assigned, own, (own,))
    edits = [
        Edit(span=tokens[start - 1].span, text="FROM"),
        Edit(span=tokens[place].span, text="SELECT *,"),
    ]
    for number, (one, group) in enumerate(
        zip(assignments, tk.cut_at_commas(assigned), strict=True)
    ):
        edits += _value(one, group, f"{VALUE_}{number}", default_of)
    return _edited(statement.text, edits), assignments


def _value(
    assignment: Assignment, group: tk.Tokens, name: str, default_of: Callable[[str], str]
) -> list[Edit]:
    """What puts ``(value) AS name`` in place of ``column = value``."""
    if assignment.value is None:
        text = f"({default_of(assignment.column)}) AS {name}"
        return [Edit(span=tk.span_of(group), text=text)]
    head = Span(group[0].source, group[0].start, assignment.value.span.start)
    return [Edit(span=head, text="("), Edit(span=tk.end_of(group), text=f") AS {name}")]


def _edited(text: SqlText, edits: list[Edit]) -> SqlText:
    """The text with what is replaced; names of columns that are replaced are no longer there."""
    gone = [edit.span for edit in edits]
    names = tuple(
        name for name in text.names if not any(g.start <= name.span.start < g.stop for g in gone)
    )
    return replace(text, edits=(*text.edits, *edits), names=names)
