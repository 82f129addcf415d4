"""Which rows of a table a statement is about, where its condition says so by equality: their keys.

    k = 1 AND l IN (2, 3) AND f(v)      k is 1, l is 2 or 3; f(v) is asked of the rows found

Told from the conjuncts of a condition, in order. A conjunct fixes a column if it compares the bare
column, by ``=`` or ``IN``, with values that do not depend on the row. Conjuncts count from the
front up to the first that fixes no column: what stands before an equality is evaluated on every
row, may fail there, and must.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

KEYS_MAX = 100
"""The most combinations of values that one condition may allow."""


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """A column of the table that is written."""

    name: str


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value that does not depend on the table's row: the ``number``-th of the condition."""

    number: int


Term = OwnColumn | GivenValue | None
"""One side of a comparison; None for anything else."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A conjunct: a side equals one of the others."""

    side: Term
    others: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the table, and the numbers of the values of which it has one."""

    name: str
    values: tuple[int, ...]


def key_columns(
    conjuncts: Iterable[Comparison | None], *, is_whole: bool = False
) -> tuple[KeyColumn, ...]:
    """The columns that the conjuncts at the front fix, each once; empty for none or too many keys.

    Args:
        conjuncts: of the condition; None for one that is no comparison. is_whole: the condition
            must have no other conjuncts.
    """
    key_columns: dict[str, KeyColumn] = {}
    for conjunct in conjuncts:
        column = None if conjunct is None else _fixed(conjunct)
        if column is None or column.name in key_columns:
            if is_whole:
                return ()
            break
        key_columns[column.name] = column
    fits = prod(len(column.values) for column in key_columns.values()) <= KEYS_MAX
    return tuple(key_columns.values()) if fits else ()


def _fixed(conjunct: Comparison) -> KeyColumn | None:
    side, others = conjunct.side, conjunct.others
    if isinstance(side, GivenValue) and len(others) == 1:
        side, others = others[0], (side,)
    if not isinstance(side, OwnColumn):
        return None
    numbers = [other.number for other in others if isinstance(other, GivenValue)]
    return KeyColumn(side.name, tuple(numbers)) if len(numbers) == len(others) else None


def combinations(counts: Sequence[int]) -> list[list[int]]:
    """For each column the place of its value, in every combination of so many values each.

    >>> combinations([2, 3])
    [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]
    """
    total = prod(counts)
    rows, run = [], total
    for count in counts:
        run //= max(count, 1)
        rows.append([i // max(run, 1) % count for i in range(total)])
    return rows
