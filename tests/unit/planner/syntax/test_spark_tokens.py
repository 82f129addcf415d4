"""Tokens, lists and comments are cut where Spark's lexer cuts them."""

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, plain_comments, tokenise


def tokens(text: str) -> Tokens:
    return tokenise(Source(text).whole())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a < b, c", 2),
        ("a < b, c > d", 2),
        ("a << b, c >> d, e >>> f", 3),
        ("map < 3, v > 2", 2),
        ("a::MAP<INT, STRING>, b", 2),
        ("a::MAP<INT, ARRAY<MAP<INT, INT>>>, b < c, d", 3),
        ("CAST(a AS MAP<INT, INT>), b", 2),
        ("a[f(b, c)], d", 2),
    ],
)
def test_lists_are_cut_at_commas(text: str, count: int) -> None:
    """A comparison opens nothing; a type does."""
    assert len(cut_at_commas(tokens(text))) == count


def test_tokens_are_those_of_spark() -> None:
    """Signs that Spark keeps together are not torn apart."""
    text = "a << b >> c >>> d !> e !< f + .5 - x.1a * 1_0 / ARRAY<ARRAY<INT>>"
    found = " ".join(t.span.text for t in tokens(text))
    assert found == "a << b >> c >>> d !> e !< f + .5 - x . 1a * 1_0 / ARRAY < ARRAY < INT >>"


@pytest.mark.parametrize(
    ("text", "plain_text"),
    [
        ("a -- b \\\n + c\n + d", "a -- b    + c\n + d"),
        ("'-- \\\n' -- \\\n\\\nx\ny", "'-- \\\n' --     x\ny"),
        ("/* -- \\\n */ a", "/* -- \\\n */ a"),
        ("a -- b\n + c", "a -- b\n + c"),
    ],
)
def test_a_comment_goes_on_behind_a_backslash(text: str, plain_text: str) -> None:
    """As it does to Spark, whose lexer takes the next line for a part of it."""
    assert plain_comments(text) == plain_text
    assert len(plain_comments(text)) == len(text)
