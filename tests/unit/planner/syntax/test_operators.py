"""How operators bind; tests/spark/planner/test_operators.py asks Spark the same of every pair of
them.
"""

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.ivm.parse.expressions import conjuncts, texts
from ctsql.planner.syntax.tokens import operators
from ctsql.planner.syntax.tokens.operators import UncertainText
from ctsql.planner.syntax.tokens.tokenizer import Tokens, tokenise
from tests.unit.planner.syntax.operator_texts import (
    around_operands,
    in_a_row,
    operations,
    parenthesised,
)

SHAPES = [
    ("a = b BETWEEN c AND d", "((a = b) BETWEEN c AND d)"),
    ("a BETWEEN b AND c = d", "(a BETWEEN b AND (c = d))"),
    ("a BETWEEN b AND c AND d", "((a BETWEEN b AND c) AND d)"),
    ("a = b IN (c, d)", "((a = b) IN (c, d))"),
    ("a = b > c", "((a = b) > c)"),
    ("a <> b < c", "((a <> b) < c)"),
    ("a <=> b > c", "((a <=> b) > c)"),
    ("NOT a = b > c", "(NOT ((a = b) > c))"),
    ("! a AND b OR c", "(((! a) AND b) OR c)"),
    ("a LIKE b = c", "(a LIKE (b = c))"),
    ("a || b + c * d", "((a || b) + (c * d))"),
    ("a | b ^ c & d << e", "(a | (b ^ (c & (d << e))))"),
    ("a IS DISTINCT FROM b = c", "(a IS DISTINCT FROM (b = c))"),
    ("- 5::string", "- 5::string"),
    ("- a::string", "(- a::string)"),
    ("- - a.b[c + 1]", "(- (- a.b[(c + 1)]))"),
    ("a - -5", "(a - -5)"),
    ("f(x -> x + 1, y)", "f((x -> (x + 1)), y)"),
    ("CASE WHEN a = b > c THEN d OR e END + 1", "(CASE WHEN ((a = b) > c) THEN (d OR e) END + 1)"),
    ("INTERVAL '1-2' YEAR TO MONTH + a", "(INTERVAL '1-2' YEAR TO MONTH + a)"),
    ("EXISTS (SELECT 1) AND a", "(EXISTS(SELECT 1) AND a)"),
    ("a IN (SELECT b = c > d)", "(a IN (SELECT b = c > d))"),
]
UNREADABLE = [
    *("a = NOT b", "a = NOT (b)", "a IS NULL = b", "a IN (1) IN (2)", "a = EXISTS (SELECT 1)"),
    *("and", "a ! IN (1)", "a b", "a,b", "(a", "a)", "()", "a ==", "a = b AS c", "(a AS b)"),
    *("a.5", "1a", "a <", "a LIKE b ESCAPE c", "CASE a END", "BETWEEN AND", "a IS b", "", "5.e"),
]  # fmt: skip


def tokens(text: str) -> Tokens:
    return tokenise(Source(text).whole())


def plain(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(("text", "shape"), SHAPES)
def test_operators_bind_as_in_spark(text: str, shape: str) -> None:
    """Every operation stands in the parentheses that Spark puts around it."""
    assert plain(" ".join(parenthesised(texts(tokens(text))))) == plain(shape)


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_is_not_certain_is_not_read(text: str) -> None:
    """Spark refuses most of it; the rest has keywords as names."""
    with pytest.raises(UncertainText):
        operators.read(texts(tokens(text)) if text else [])


def test_parentheses_change_nothing_that_has_them() -> None:
    """The shape is the same with all its parentheses written."""
    read = 0
    for text in [*in_a_row(2), *around_operands()]:
        try:
            made = parenthesised(text.split())
        except UncertainText:
            continue
        read += 1
        kinds = [s.kind for s in operations(text.split())]
        again = [s.kind for s in operations(made)]
        assert kinds == again, text
    assert read > 6_000


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a = b BETWEEN c AND d AND e", ["a = b BETWEEN c AND d", "e"]),
        ("(a AND (b AND c)) AND d OR e", ["(a AND (b AND c)) AND d OR e"]),
        ("(a AND (b AND c)) AND (d OR e)", ["a", "b", "c", "d OR e"]),
        ("NOT (a AND b) AND CASE WHEN c AND d THEN e END", None),
        ("NOT a AND b", ["NOT a", "b"]),
        ("a = and AND b", ["a = and AND b"]),
    ],
)
def test_conjuncts(text: str, pieces: list[str] | None) -> None:
    """A condition is cut at the ANDs that are at its top, and at no other."""
    found = [" ".join(texts(piece)) for piece in conjuncts(tokens(text))]
    wanted = pieces or ["NOT (a AND b)", "CASE WHEN c AND d THEN e END"]
    assert [plain(f) for f in found] == [plain(w) for w in wanted]
