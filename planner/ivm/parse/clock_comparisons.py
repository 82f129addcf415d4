"""Parses a condition that compares a value with the clock, and finds when its result changes.

The clock only advances, so such a comparison changes once: ``at > now()`` is true until T reaches
``at``; a constant interval added to the clock shifts that T. Conditions whose T cannot be computed
beforehand are refused: a comparison under OR or NOT, months (they have no fixed length), two
clocks.

Source: temporal filters of Materialize (``mz_now()`` in WHERE and HAVING), here for timestamps.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ctsql.planner.ivm.algebra.nodes import Expiry, Expr
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.parse.expressions import texts
from ctsql.planner.syntax.ast import ClockCall, ClockKind
from ctsql.planner.syntax.tokens import operators
from ctsql.planner.syntax.tokens.operators import Shape
from ctsql.planner.syntax.tokens.tokenizer import Tokens, span_of

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "="}
_EXPIRIES = {
    "<": ((True, True),),
    "<=": ((True, False),),
    ">": ((False, False),),
    ">=": ((False, True),),
    "=": ((True, False), (False, True)),
}
"""By comparison operator: (is_entry, is_strict) of each expiry."""
_WITHOUT_LENGTH = re.compile(r"(?i)mon|quarter|year|yr|decade|century|centuries|millenni")
_DAYS_ADDED = {"DATE_ADD": "+", "DATE_SUB": "-"}


@dataclass(frozen=True, slots=True)
class ClockCondition:
    """One predicate of WHERE or HAVING, and its expiries if it compares with the clock."""

    predicate: Expr
    expiries: tuple[Expiry, ...] = ()

    def rewrite_with(self, rewrite: Callable[[Expr], Expr]) -> "ClockCondition":
        """The condition over other columns."""
        expiries = tuple(replace(t, value=rewrite(t.value)) for t in self.expiries)
        return ClockCondition(rewrite(self.predicate), expiries)


@dataclass(frozen=True, slots=True)
class _Bound:
    """The clock plus or minus lengths of time: the sign and the text of each."""

    is_day: bool
    lengths: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def shift(self, *, undone: bool) -> Expr:
        """The lengths as text to add; with ``undone``, to subtract."""
        flip = {"+": "-", "-": "+"} if undone else {"+": "+", "-": "-"}
        return Expr(tuple(p for sign, text in self.lengths for p in (flip[sign], *text)))


def read_expiries(
    tokens: Tokens, clocks: Mapping[int, ClockCall], build: Callable[[Tokens], Expr]
) -> tuple[Expiry, ...]:
    """The expiries of a condition that reads the clock; ``build`` makes the expression of a value.

    Raises:
        CLOCK_READ: as :class:`Refusal`, if the condition is not such a comparison.
    """
    return _Reader(tokens, clocks, build).condition()


class _Reader:
    def __init__(
        self, tokens: Tokens, clocks: Mapping[int, ClockCall], build: Callable[[Tokens], Expr]
    ) -> None:
        self.tokens, self.clocks, self.build = tokens, clocks, build

    def condition(self) -> tuple[Expiry, ...]:
        try:
            shape = operators.read(texts(self.tokens))
        except operators.UncertainText as cause:
            raise self.refused() from cause
        shape = shape.bare
        if shape.kind in _FLIPPED:
            left, right = shape.inside
            return self.compared(left, shape.kind, right)
        if shape.kind == "BETWEEN":
            value, lower, upper = shape.inside
            if self.tokens[value.stop].upper == "BETWEEN":
                return (*self.compared(value, ">=", lower), *self.compared(value, "<=", upper))
        raise self.refused()

    def compared(self, left: Shape, operator: str, right: Shape) -> tuple[Expiry, ...]:
        """``left operator right``; no expiry if neither reads the clock."""
        reads = [self.reads_clock(left), self.reads_clock(right)]
        if reads == [False, False]:
            return ()
        if reads == [True, True]:
            raise self.refused()
        if reads == [True, False]:
            left, right, operator = right, left, _FLIPPED[operator]
        bound = self.read_bound(right)
        value = self.build(self.tokens[left.start : left.stop])
        return tuple(
            Expiry(
                value=value,
                shift=bound.shift(undone=True),
                bound=bound.shift(undone=False),
                is_entry=is_entry,
                is_strict=is_strict,
                is_day=bound.is_day,
            )
            for is_entry, is_strict in _EXPIRIES["=" if operator == "==" else operator]
        )

    def read_bound(self, shape: Shape) -> _Bound:
        """``now()``, ``now() - INTERVAL 1 DAY``, ``current_date() - 7`` and their like."""
        shape = shape.bare
        tokens = self.tokens[shape.start : shape.stop]
        call = self.clocks.get(tokens[0].start)
        if call is not None and tokens[-1].stop == call.span.stop:
            if call.kind is ClockKind.UNIX:
                raise self.refused()
            return _Bound(call.kind is ClockKind.DATE)
        if shape.kind in ("+", "-") and len(shape.inside) == 2:
            left, right = shape.inside
            if shape.kind == "+" and self.reads_clock(right):
                left, right = right, left
            below = self.read_bound(left)
            length = (shape.kind, self.length(right, below))
            return _Bound(below.is_day, (*below.lengths, length))
        if tokens[0].upper in _DAYS_ADDED and len(shape.inside) == 2:
            below = self.read_bound(shape.inside[0])
            if below.is_day:
                days = self.length(shape.inside[1], below, is_number=True)
                return _Bound(True, (*below.lengths, (_DAYS_ADDED[tokens[0].upper], days)))
        raise self.refused()

    def length(self, shape: Shape, of: _Bound, *, is_number: bool = False) -> tuple[str, ...]:
        """A constant length of time, as text; a number means days."""
        pieces = texts(self.tokens[shape.start : shape.stop])
        text = " ".join(pieces)
        if of.is_day and re.fullmatch(r"-? ?\d+", text):
            return ("make_dt_interval", "(", *pieces, ")")
        is_interval = pieces[0].upper() == "INTERVAL" and not shape.kind
        if is_number or not is_interval or _WITHOUT_LENGTH.search(text):
            raise self.refused()
        return tuple(pieces)

    def reads_clock(self, shape: Shape) -> bool:
        return any(t.start in self.clocks for t in self.tokens[shape.start : shape.stop])

    def refused(self) -> Refusal:
        call = next(self.clocks[t.start] for t in self.tokens if t.start in self.clocks)
        return Refusal("CLOCK_READ", call.span if self.tokens else span_of(self.tokens))
