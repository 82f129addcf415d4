"""Where a condition is cut, and which part of an expression is a key of GROUP BY."""

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.ivm.algebra.nodes import Col
from ctsql.planner.ivm.parse.expressions import conjuncts, texts
from ctsql.planner.ivm.parse.grouping import replace_key
from ctsql.planner.syntax.tokens.tokenizer import Tokens, tokenise

KEY = Col("key", "int")


def tokens(text: str) -> Tokens:
    return tokenise(Source(text).whole())


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a = b BETWEEN c AND d AND e", ["a = b BETWEEN c AND d", "e"]),
        ("a BETWEEN b AND c AND d BETWEEN e AND f", ["a BETWEEN b AND c", "d BETWEEN e AND f"]),
        ("(a AND (b AND c)) AND d OR e", ["(a AND (b AND c)) AND d OR e"]),
        ("(a AND (b AND c)) AND (d OR e)", ["a", "b", "c", "d OR e"]),
        ("((a = 1 AND b))", ["a = 1", "b"]),
        (
            "NOT (a AND b) AND CASE WHEN c AND d THEN e END",
            ["NOT (a AND b)", "CASE WHEN c AND d THEN e END"],
        ),
        ("NOT a AND b", ["NOT a", "b"]),
        ("a = and AND b", ["a = and AND b"]),
        ("t.and AND t.or AND t.between", ["t.and", "t.or", "t.between"]),
        (
            "start < now() AND now() < end AND f[a AND b]",
            ["start<now()", "now()<end", "f[a AND b]"],
        ),
        ("(a, b) = (1, 2) AND (SELECT c AND d)", ["(a, b) = (1, 2)", "(SELECT c AND d)"]),
        ("EXISTS (SELECT 1 WHERE a AND b) AND c", ["EXISTS (SELECT 1 WHERE a AND b)", "c"]),
        ("any_match(a, x -> x AND b) AND c", ["any_match(a, x -> x AND b)", "c"]),
    ],
)
def test_conjuncts(text: str, pieces: list[str]) -> None:
    """A condition is cut at the ANDs that are at its top, and at no other."""
    found = ["".join(texts(piece)) for piece in conjuncts(tokens(text))]
    assert found == ["".join(piece.split()) for piece in pieces]


@pytest.mark.parametrize(
    ("text", "key", "replaced"),
    [
        ("a + b", "a + b", "KEY"),
        ("f(a + b) + (a + b)", "a + b", "f(KEY)+(KEY)"),
        ("a + b > 5 AND c", "a + b", "KEY>5ANDc"),
        ("a + b + c", "a + b", "KEY+c"),
        ("c + a + b", "a + b", "c+a+b"),
        ("c * a + b", "a + b", "c*a+b"),
        ("a + b * c", "a + b", "a+b*c"),
        ("c + a * b", "a * b", "c+KEY"),
        ("a + b::string", "a + b", "a+b::string"),
        ("f(a)::string || f(a).x", "f(a)", "KEY::string||KEY.x"),
        ("NOT a = 1 OR c", "a = 1", "NOTKEYORc"),
        ("NOT a = 1 OR c", "a = 1 OR c", "NOTa=1ORc"),
        ("(a = 1 OR c) AND b", "a = 1 OR c", "(KEY)ANDb"),
        ("b AND a = 1 OR c", "a = 1 OR c", "bANDa=1ORc"),
        ("CASE WHEN a = 1 THEN F(A) END", "f(a)", "CASEWHENa=1THENKEYEND"),
        ("CASE WHEN a THEN b END + 1", "CASE WHEN a THEN b END", "KEY+1"),
        ("f('x') || f('X')", "f('X')", "f('x')||KEY"),
    ],
)
def test_keys_are_replaced_as_operands(text: str, key: str, replaced: str) -> None:
    """By Spark's precedence: a part of an operation is no key, though its tokens are the same."""
    parts = replace_key(tuple(texts(tokens(text))), tuple(texts(tokens(key))), KEY)
    assert "".join("KEY" if part is KEY else str(part) for part in parts) == replaced
