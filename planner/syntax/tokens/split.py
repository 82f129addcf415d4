"""Cuts a script into statements, by tokens: a semicolon outside parentheses ends one.

The body of a continual task holds statements with their own semicolons; it stands in
parentheses, so they end nothing here. Comments, strings and quoted names may hold anything.
"""

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax.tokens.tokenizer import Token, Tokens, find_unclosed, span_of, tokenise


def split(source: Source) -> list[Span]:
    """The statements of a script, in order; empty ones are dropped.

    A span holds neither the semicolon nor the comments and blanks around the statement.

    Raises:
        SYNTAX_ERROR: a string, a quoted name, a comment or a parenthesis is not closed; a
            parenthesis closes that never opened.
    """
    return [span_of(tokens) for tokens in split_tokens(tokenise(source.whole())) if tokens]


def split_tokens(tokens: Tokens) -> list[list[Token]]:
    """The same for tokens; empty statements are kept, as empty lists."""
    statements: list[list[Token]] = [[]]
    open_parens: list[Token] = []
    for token in tokens:
        if token.upper == "(":
            open_parens.append(token)
        elif token.upper == ")":
            if not open_parens:
                message = "a parenthesis closes that was not opened"
                raise error("SYNTAX_ERROR", span=token.span, message=message)
            open_parens.pop()
        if token.upper == ";" and not open_parens:
            statements.append([])
        else:
            statements[-1].append(token)
    if open_parens:
        message, detail = "a parenthesis is not closed", "It opens here."
        raise error("SYNTAX_ERROR", span=open_parens[-1].span, message=message, detail=detail)
    return statements


def is_complete(text: str) -> bool:
    """Return whether a text can be run: blank, ended by a semicolon, or wrong beyond mending."""
    if find_unclosed(text) is not None:
        return False
    try:
        tokens = tokenise(Source(text).whole())
    except CtsqlError:
        return True
    depth = 0
    for token in tokens:
        depth = max(depth + {"(": 1, ")": -1}.get(token.upper, 0), 0)
    return not tokens or (depth == 0 and tokens[-1].upper == ";")
