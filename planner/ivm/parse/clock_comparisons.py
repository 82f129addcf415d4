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
from ctsql.planner.ivm.parse.expressions import texts, unwrapped
from ctsql.planner.syntax.ast import ClockCall, ClockKind
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.sqlglot_gaps import ends_operand
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, span_of

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "="}
_EXPIRIES = {
    "<": ((True, True),),
    "<=": ((True, False),),
    ">": ((False, False),),
    ">=": ((False, True),),
    "=": ((True, False), (False, True)),
}
"""By comparison operator: (is_entry, is_strict) of each expiry."""
_PREDICATES = tk.word_set(
    "= == <> != < <= > >= <=> !< !> AND OR NOT ! IS IN LIKE ILIKE RLIKE REGEXP BETWEEN ESCAPE ->"
)
"""What binds looser than arithmetic: one comparison alone needs no rule of precedence."""
_UNIT = r"(?:NANOSECOND|MICROSECOND|MILLISECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|YEAR)S?"
_VALUE = r"(?:[-+] )?(?:[\d.]+(?:E[-+]?\d+)?|'[^']*'|\"[^\"]*\")"
_INTERVAL = re.compile(
    rf"(?i)INTERVAL(?: (?:'[^']*'|\"[^\"]*\")|(?: {_VALUE} {_UNIT}(?: TO {_UNIT})?)+)"
)
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
        tokens = unwrapped(self.tokens)
        marks = [(index, word) for index, word in tk.top_words(tokens) if word in _PREDICATES]
        match marks:
            case [(at, operator)] if operator in _FLIPPED:
                return self.compared(tokens[:at], operator, tokens[at + 1 :])
            case [(at, "BETWEEN"), (end, "AND")]:
                value, lower, upper = tokens[:at], tokens[at + 1 : end], tokens[end + 1 :]
                return (*self.compared(value, ">=", lower), *self.compared(value, "<=", upper))
        raise self.refused()

    def compared(self, left: Tokens, operator: str, right: Tokens) -> tuple[Expiry, ...]:
        """``left operator right``; no expiry if neither reads the clock."""
        reads = [self.reads_clock(left), self.reads_clock(right)]
        if reads == [False, False]:
            return ()
        if reads == [True, True]:
            raise self.refused()
        if reads == [True, False]:
            left, right, operator = right, left, _FLIPPED[operator]
        bound = self.read_bound(right)
        value = self.build(left)
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

    def read_bound(self, tokens: Tokens) -> _Bound:
        """``now()``, ``now() - INTERVAL 1 DAY``, ``current_date() - 7`` and their like."""
        tokens = unwrapped(tokens)
        call = self.clocks.get(tokens[0].start) if tokens else None
        if call is not None and tokens[-1].stop == call.span.stop:
            if call.kind is ClockKind.UNIX:
                raise self.refused()
            return _Bound(call.kind is ClockKind.DATE)
        # A sign after INTERVAL or an operator belongs to the number.
        sums = [
            (index, word)
            for index, word in tk.top_words(tokens)
            if word in ("+", "-") and _ends_value(tokens[:index])
        ]
        if sums:
            at, sign = sums[-1]
            left, right = tokens[:at], tokens[at + 1 :]
            if sign == "+" and self.reads_clock(right):
                left, right = right, left
            below = self.read_bound(left)
            return _Bound(below.is_day, (*below.lengths, (sign, self.length(right, below))))
        if tk.upper_at(tokens, 0) in _DAYS_ADDED and tk.upper_at(tokens, 1) == "(":
            arguments = tk.cut_at_commas(tokens[2:-1])
            if tk.closing(tokens, 1) == len(tokens) - 1 and len(arguments) == 2:
                below = self.read_bound(arguments[0])
                if below.is_day:
                    days = self.length(arguments[1], below, is_number=True)
                    return _Bound(True, (*below.lengths, (_DAYS_ADDED[tokens[0].upper], days)))
        raise self.refused()

    def length(self, tokens: Tokens, of: _Bound, *, is_number: bool = False) -> tuple[str, ...]:
        """A constant length of time, as text; a number means days."""
        pieces = tuple(texts(tokens))
        text = " ".join(pieces)
        if of.is_day and re.fullmatch(r"-? ?\d+", text):
            return ("make_dt_interval", "(", *pieces, ")")
        if is_number or not _INTERVAL.fullmatch(text) or _WITHOUT_LENGTH.search(text):
            raise self.refused()
        return pieces

    def reads_clock(self, tokens: Tokens) -> bool:
        return any(t.start in self.clocks for t in tokens)

    def refused(self) -> Refusal:
        call = next(self.clocks[t.start] for t in self.tokens if t.start in self.clocks)
        return Refusal("CLOCK_READ", call.span if self.tokens else span_of(self.tokens))


def _ends_value(tokens: Tokens) -> bool:
    last = tokens[-1] if tokens else None
    return last is not None and (last.kind in (Kind.NUMBER, Kind.STRING) or ends_operand(last))
