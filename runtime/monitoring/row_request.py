"""What of a system table is asked for, so that no more commits are read than that. Pure.

A comparison of a column with a constant makes the range smaller. Whoever supplies the rows of the
range may supply more, as Spark evaluates the query; with ``newest`` it must be exactly the range.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

INSTANT = "at"
"""The column of an instant; its bounds are microseconds, as Spark has them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column op values``: op is one of < <= = >= > with one value, or ``in`` with several."""

    column: str
    op: str
    values: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range of whole numbers, both bounds inclusive; None for none."""

    lower: int | None = None
    upper: int | None = None

    def holds(self, value: int) -> bool:
        """Whether a value is in the range."""
        return (self.lower is None or value >= self.lower) and (
            self.upper is None or value <= self.upper
        )

    def narrow(self, op: str, value: int) -> "Bounds":
        """The part of the range for which a comparison holds.

        >>> Bounds(1, 9).narrow("<", 5), Bounds().narrow("=", 3), Bounds(4).narrow(">=", 2)
        (Bounds(lower=1, upper=4), Bounds(lower=3, upper=3), Bounds(lower=4, upper=None))
        """
        lower = {">": value + 1, ">=": value, "=": value}.get(op)
        upper = {"<": value - 1, "<=": value, "=": value}.get(op)
        return Bounds(
            lower if self.lower is None or lower is None else max(self.lower, lower),
            upper if self.upper is None or upper is None else min(self.upper, upper),
        )._or(self)

    def _or(self, other: "Bounds") -> "Bounds":
        """The same with the other's bounds where it has none."""
        return Bounds(
            other.lower if self.lower is None else self.lower,
            other.upper if self.upper is None else self.upper,
        )

    def hull(self, other: "Bounds") -> "Bounds":
        """The smallest range that holds both.

        >>> Bounds(1, 3).hull(Bounds(5, 9)), Bounds(1, 3).hull(Bounds(5))
        (Bounds(lower=1, upper=9), Bounds(lower=1, upper=None))
        """
        unbounded_below = self.lower is None or other.lower is None
        unbounded_above = self.upper is None or other.upper is None
        return Bounds(
            None if unbounded_below else min(self.lower or 0, other.lower or 0),
            None if unbounded_above else max(self.upper or 0, other.upper or 0),
        )


@dataclass(frozen=True, slots=True)
class Newest:
    """At most so many rows are wanted, those with the greatest values of ``t`` or ``at``."""

    count: int
    column: str


@dataclass(frozen=True, slots=True)
class RowRequest:
    """What is asked for.

    Attributes:
        objects: names as ``object`` has them; None for all. states: the same of ``state``.
        t: bounds of T. at: of the instant, in microseconds. newest: None for all rows.
        columns: those that are looked at; None for all. Others may have any value.
    """

    objects: frozenset[str] | None = None
    states: frozenset[str] | None = None
    t: Bounds = Bounds()
    at: Bounds = Bounds()
    newest: Newest | None = None
    columns: frozenset[str] | None = None

    def has(self, name: str) -> bool:
        """Whether an object is asked for."""
        return self.objects is None or name in self.objects

    def looks_at(self, column: str) -> bool:
        """Whether a column is looked at."""
        return self.columns is None or column in self.columns

    def hull(self, other: "RowRequest") -> "RowRequest":
        """What holds both."""
        return RowRequest(
            _union(self.objects, other.objects),
            _union(self.states, other.states),
            self.t.hull(other.t),
            self.at.hull(other.at),
            columns=_union(self.columns, other.columns),
        )

    def with_objects(self, names: frozenset[str]) -> "RowRequest":
        """Those of the objects that are among some."""
        return replace(self, objects=_common(self.objects, names))


ALL = RowRequest()


def request_of(comparisons: Iterable[Comparison], newest: Newest | None = None) -> RowRequest:
    """What all of some comparisons ask for.

    >>> request = request_of([Comparison("object", "=", ("m",)), Comparison("t", ">", (5,))])
    >>> sorted(request.objects or ()), request.t
    (['m'], Bounds(lower=6, upper=None))
    >>> request_of([Comparison("rows_read", ">", (5,))], Newest(3, "t")).newest is None
    True

    Args:
        newest: dropped if a comparison makes no range smaller, since then other rows than those of
            the range count.
    """
    request = RowRequest(newest=newest)
    for one in comparisons:
        narrower = _narrow(request, one)
        request = replace(request, newest=None) if narrower is None else narrower
    return request


def _narrow(request: RowRequest, one: Comparison) -> RowRequest | None:
    """What is wanted with one more comparison; None if that cannot be told."""
    if one.column in ("object", "state") and one.op in ("=", "in"):
        names = frozenset(str(v) for v in one.values)
        if one.column == "object":
            return request.with_objects(names)
        return replace(request, states=_common(request.states, names))
    if one.column in ("t", INSTANT) and one.op != "in" and isinstance(one.values[0], int):
        value = one.values[0]
        if one.column == INSTANT:
            return replace(request, at=request.at.narrow(one.op, value))
        return replace(request, t=request.t.narrow(one.op, value))
    return None


def _union(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _common(one: frozenset[str] | None, other: frozenset[str]) -> frozenset[str]:
    return other if one is None else one & other
