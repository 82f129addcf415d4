"""GROUP BY: its columns, its sets, and their use in the select list."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ctsql.planner.ivm.algebra.nodes import Col, Expr, ExprPart
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.traversal import columns_in, substitute
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, span_of

_SETS_MAX = 4096  # CUBE of 12 columns, which is also Spark's own bound


def read_grouping(
    tokens: Tokens, build: Callable[[Tokens], Expr], items: Sequence[Expr | None]
) -> tuple[tuple[Expr, ...], tuple[tuple[int, ...], ...] | None]:
    """The columns of a GROUP BY clause, and for several sets the numbers of the columns of each.

    ``build`` makes an expression. ``items``: the select list's expressions, for ordinals and ALL;
    None for one with an aggregate.
    """
    keys: list[Expr] = []

    def number(piece: Tokens) -> int:
        if len(piece) == 1 and piece[0].kind is Kind.NUMBER and piece[0].text.isdigit():
            place = int(piece[0].text)
            item = items[place - 1] if 1 <= place <= len(items) else None
            if item is None:
                raise Refusal("GROUPING_UNSUPPORTED", span_of(piece))
            expr = item
        else:
            expr = build(piece)
        if expr not in keys:
            keys.append(expr)
        return keys.index(expr)

    if len(tokens) == 1 and tokens[0].upper == "ALL":
        plain = [item for item in items if item is not None]
        return tuple(dict.fromkeys(plain)), None
    body, trailing = _trailing(tokens)
    several = bool(trailing)
    factors: list[list[tuple[int, ...]]] = []
    for group in tk.cut_at_commas(body):
        group_sets = _sets(group, number)
        if group_sets is None:
            while (inside := tk.in_parentheses(group)) is not None:
                group = inside
            factors.append([(number(group),)])
        else:
            several = True
            factors.append(group_sets)
    if trailing:
        factors = [_trailing_sets(trailing, factors, number)]
    sets = [
        tuple(dict.fromkeys(itertools.chain.from_iterable(choice)))
        for choice in itertools.islice(itertools.product(*factors), _SETS_MAX + 1)
    ]
    if len(sets) > _SETS_MAX:
        raise Refusal("GROUPING_UNSUPPORTED", span_of(tokens))
    return tuple(keys), tuple(sets) if several else None


def _trailing(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """``a, b WITH ROLLUP`` and ``a, b GROUPING SETS (...)`` cut into the list and the rest."""
    for index, _ in tk.at_depth_0(tokens, brackets=True):
        behind_list = index > 0 and tokens[index - 1].upper != ","
        with_word = any(tk.words_are(tokens, index, "WITH", word) for word in ("ROLLUP", "CUBE"))
        if with_word or (behind_list and tk.words_are(tokens, index, "GROUPING", "SETS", "(")):
            return tokens[:index], tokens[index:]
    return tokens, ()


def _trailing_sets(
    trailing: Tokens, factors: list[list[tuple[int, ...]]], number: Callable[[Tokens], int]
) -> list[tuple[int, ...]]:
    if trailing[0].upper == "GROUPING":
        sets = _sets(trailing, number)
        if sets is None:
            raise Refusal("GROUPING_UNSUPPORTED", span_of(trailing))
        return sets
    return _subsets(trailing[1].upper, [factor[0] for factor in factors])


def _sets(tokens: Tokens, number: Callable[[Tokens], int]) -> list[tuple[int, ...]] | None:
    """The sets of ROLLUP(...), CUBE(...), GROUPING SETS (...); None for a plain expression."""
    word = tk.upper_at(tokens, 0)
    opening = 2 if tk.words_are(tokens, 0, "GROUPING", "SETS") else 1
    if word not in ("ROLLUP", "CUBE", "GROUPING") or not tk.words_are(tokens, opening, "("):
        return None
    if tk.closing(tokens, opening) != len(tokens) - 1:
        return None
    pieces = tk.cut_at_commas(tokens[opening + 1 : -1])
    if word == "GROUPING":
        return [s for piece in pieces for s in _sets(piece, number) or [_member(piece, number)]]
    return _subsets(word, [_member(piece, number) for piece in pieces])


def _member(tokens: Tokens, number: Callable[[Tokens], int]) -> tuple[int, ...]:
    """``a``, ``(a, b)`` or ``()``."""
    inside = tk.in_parentheses(tokens)
    if inside is None:
        return (number(tokens),)
    return tuple(number(g) for g in tk.cut_at_commas(inside)) if inside else ()


def _subsets(word: str, members: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The sets of ROLLUP, which are the members' beginnings, or of CUBE, which are all subsets."""
    count = len(members)
    masks: Iterable[Iterable[bool]] = itertools.product((True, False), repeat=count)
    if word == "ROLLUP":
        masks = ([i < n for i in range(count)] for n in range(count, -1, -1))
    subsets = (itertools.compress(members, one) for one in masks)
    return [tuple(itertools.chain.from_iterable(one)) for one in subsets]


class KeyRewriter:
    """Rewrites expressions over rows into expressions over columns that hold parts of them.

    Args:
        keys: the columns, by the expression they hold: group keys, items of a select list. rows:
            the columns of the rows.
    """

    def __init__(self, keys: Mapping[Expr, Col], rows: Sequence[Col]) -> None:
        self.columns = {expr.column: col for expr, col in keys.items() if expr.column is not None}
        self.longer = sorted(
            ((expr, col) for expr, col in keys.items() if expr.column is None),
            key=lambda pair: -len(pair[0].parts),
        )
        self.rows = frozenset(rows)

    def rewrite(self, expr: Expr) -> Expr:
        """The expression over the keys; raises KEY_NOT_MATCHED as :class:`Refusal`."""
        new_expr = self.find(expr)
        if new_expr is None:
            raise Refusal("KEY_NOT_MATCHED", expr.span)
        return new_expr

    def find(self, expr: Expr) -> Expr | None:
        """The expression over the keys; None if it needs other columns."""
        parts = expr.parts
        for key, col in self.longer:
            parts = replace_key(parts, key.parts, col)
        new_expr: Expr = substitute(replace(expr, parts=parts), self.columns)
        return None if columns_in(new_expr) & self.rows else new_expr


def replace_key(
    parts: tuple[ExprPart, ...], key: tuple[ExprPart, ...], col: Col
) -> tuple[ExprPart, ...]:
    """The parts with a column in place of each operand that is the key."""
    size, level = len(key), _level_of(key)
    new_parts: list[ExprPart] = []
    index = 0
    while index < len(parts):
        behind = index + size
        if (
            all(map(_same, parts[index:behind], key))
            and behind <= len(parts)
            and (not index or _level(parts[index - 1]) < level)
            and (behind == len(parts) or _level(parts[behind]) <= level)
        ):
            new_parts.append(col)
            index = behind
        else:
            new_parts.append(parts[index])
            index += 1
    return tuple(new_parts)


_LEVELS = {
    word: level
    for level, words in enumerate(
        (
            "AND OR NOT ! BETWEEN ->",
            "= == <> != < <= > >= <=> !< !> IS IN LIKE ILIKE RLIKE REGEXP ESCAPE",
            *("|", "^", "&", "<< >> >>>", "+ - ||", "* / % DIV"),
            ". [ :: : COLLATE",
        )
    )
    for word in words.split()
}
"""Operators, those that bind loosest first; equal ones bind from left to right.

Source: valueExpression in Spark's SqlBaseParser.g4. A sign is taken for the operator; the plan of a
text that binds otherwise is another one to Spark (ROUND_TRIP).
"""
_TIGHTEST = max(_LEVELS.values())


def _level(part: ExprPart) -> int:
    """How tightly an operator binds; -1 for any other part."""
    return _LEVELS.get(part.upper(), -1) if isinstance(part, str) else -1


def _level_of(key: tuple[ExprPart, ...]) -> int:
    """The level of the loosest operator outside parentheses."""
    depth, level = 0, _TIGHTEST
    for part in key:
        word = part.upper() if isinstance(part, str) else ""
        depth += (word in ("(", "[", "CASE")) - (word in (")", "]", "END"))
        if not depth and word in _LEVELS:
            level = min(level, _LEVELS[word])
    return level


def _same(a: ExprPart, b: ExprPart) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return a == b or (a.upper() == b.upper() and not {"'", '"'} & {*a})
    return a == b
