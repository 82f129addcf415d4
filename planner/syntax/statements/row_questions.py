"""Reads BLAME and WHY: the statements that ask about rows of an object."""

from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax.ast import RowQuestion, Select
from ctsql.planner.syntax.statements.queries import read_query
from ctsql.planner.syntax.statements.refusals import refusal
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.token_reader import Cursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import span_of, tokenise

_NOT_A_PREDICATE = (
    "GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "HAVING", "LIMIT", "OFFSET", "QUALIFY",
    "UNION", "EXCEPT", "INTERSECT", "MINUS", "WINDOW", "LATERAL", "|>",
)  # fmt: skip


def read_row_question(cursor: Cursor) -> RowQuestion:
    """Read BLAME name [WHERE predicate] [AS OF time], WHY name WHERE predicate [AS OF time]."""
    verb = cursor.tokens[0].upper
    hint = f"Type: {verb} name WHERE k = 1"
    if verb == "WHY" and cursor.at("NOT"):
        raise refusal(cursor.here, "WHY NOT")
    target = cursor.relation("the name of a table, a task or a view", aliased=False)
    if verb == "WHY" and not cursor.at("WHERE"):
        cursor.fail("WHERE", hint=hint)
    if cursor.current is not None and not cursor.at("WHERE") and not cursor.at("AS", "OF"):
        cursor.fail("WHERE, AS OF or the end", words=("WHERE", "AS"), hint=hint)
    for _, token in tk.at_depth_0(cursor.rest):
        if token.upper in _NOT_A_PREDICATE:
            raise syntax_error(
                token.span, f"found {token.upper}, expected a predicate over one row", hint=hint
            )
    last = span_of(cursor.tokens)
    rest = Span(last.source, target.span.start, last.stop).text
    inner = read_query(tokenise(Source(f"SELECT * FROM {rest}", "what is asked for").whole()))
    assert isinstance(inner, Select)  # it begins with SELECT
    return RowQuestion(span=cursor.span, verb=verb, target=target, select=inner)
