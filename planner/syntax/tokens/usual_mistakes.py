"""Finds the mistakes that people often make in a text that no parser takes.

A parser stops where it can no longer go on, which is seldom where the mistake is. These looks are
made after it has failed, so they may guess: none of them can refuse a text that is right.
"""

from collections.abc import Iterator

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.names import near
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.token_reader import syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens

_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "JOIN")
_ENDS_LIST = (*_CLAUSES, ")", ";")
_IN_DELETE = "DELETE FROM t WHERE k IN (SELECT k FROM other)"
_MERGE = "MERGE INTO t USING other ON t.k = other.k WHEN MATCHED THEN {then}"
_UPSERT = f"{_MERGE.format(then='UPDATE SET *')} WHEN NOT MATCHED THEN INSERT *"


def usual_mistake(tokens: Tokens, place: int, cause: Exception | None = None) -> CtsqlError | None:
    """The SYNTAX_ERROR of the first mistake that is known; None if there is none.

    Args:
        tokens: of a statement, or of a part of one, that could not be read.
        place: the offset in the source where the parser stopped.
    """
    for index, message, hint in (*_other_dialects(tokens), *_slips(tokens, place)):
        return syntax_error(tokens[index].span, message, hint=hint, cause=cause)
    return None


def _other_dialects(tokens: Tokens) -> Iterator[tuple[int, str, str]]:
    """Clauses of other databases for which there is another form."""
    verb = tokens[0].upper if tokens else ""
    for index, token in tk.at_depth_0(tokens):
        if verb == "DELETE" and token.upper == "USING":
            yield (
                index,
                "DELETE has no USING",
                f"Type: {_IN_DELETE}, or: {_MERGE.format(then='DELETE')}",
            )
        if verb == "UPDATE" and token.upper == "FROM":
            yield index, "UPDATE has no FROM", f"Type: {_MERGE.format(then='UPDATE SET ...')}"
        if verb == "INSERT" and tk.words_are(tokens, index, "ON", "CONFLICT"):
            yield index, "INSERT has no ON CONFLICT", f"Type: {_UPSERT}"
        if verb in ("INSERT", "UPDATE", "DELETE") and token.upper == "RETURNING":
            yield index, f"{verb} has no RETURNING", "SELECT the rows in a statement of its own."


def _slips(tokens: Tokens, place: int) -> Iterator[tuple[int, str, str]]:
    """A comma too many, a CASE without END, a slip in a word where the parser stopped."""
    for index, token in enumerate(tokens):
        is_last = index + 1 == len(tokens)
        if token.upper == "," and (is_last or tokens[index + 1].upper in _ENDS_LIST):
            hint = "Leave the comma out, or write what comes next."
            yield index, "nothing follows this comma", hint
    open_cases: list[int] = []
    for index, token in enumerate(tokens):
        if tk.upper_at(tokens, index - 1) in (".", "AS"):
            continue
        if token.upper == "CASE":
            open_cases.append(index)
        elif token.upper == "END" and open_cases:
            open_cases.pop()
    if open_cases:
        yield open_cases[-1], "this CASE has no END", "Type: CASE WHEN ... THEN ... ELSE ... END"
    stop = next((i for i, t in enumerate(tokens) if t.stop > place), len(tokens))
    for index in range(max(stop - 1, 1), min(stop + 1, len(tokens))):
        token = tokens[index]
        if token.kind is Kind.WORD and token.upper not in _CLAUSES:
            candidates = near(token.upper, _CLAUSES)
            if candidates:
                message = f'found "{token.span.text}", expected a clause'
                yield index, message, f'Did you mean "{candidates[0]}"?'
