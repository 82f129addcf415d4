"""Relations joined one after the other, each condition at the first place where it can stand.

DuckDB runs these queries without its optimizers, so it joins in the order that is written here.
"""

from collections.abc import Callable, Sequence

from ctsql.planner.changes.columns import equal_classes, free, used
from ctsql.planner.changes.in_process.sources import Types
from ctsql.planner.changes.in_process.types import Type
from ctsql.planner.changes.nodes import PREFIX, Col, Expr, Node
from ctsql.planner.changes.printing import columns


class Joined:
    """Relations joined so far.

    Attributes:
        types: of their columns. is_open: does any use columns of a query around?

    Args:
        printed: conditions as a text. around: columns of the queries around a subquery.
    """

    def __init__(
        self,
        printed: Callable[[Sequence[Expr], Types], str],
        conditions: Sequence[Expr],
        around: Types,
    ) -> None:
        self.types: dict[Col, Type] = {}
        self.is_open = False
        self._printed = printed
        self._around = around
        self._classes = equal_classes(conditions)
        self._waiting = list(conditions)
        self._text = ""
        self._count = 0

    def meets(self, node: Node, types: Types) -> bool:
        """Is there a condition between a relation and those before? The first needs none."""
        if not self.types or any(self._is_alike(*pair, types) for pair in self.pairs(node)):
            return True
        theirs = set(node.columns)
        needs = [used(c) for c in self._waiting]
        there = self.types.keys() | theirs
        return any(need <= there and need & theirs and need & self.types.keys() for need in needs)

    def _is_alike(self, mine: Col, other: Col, types: Types) -> bool:
        """Can two columns that are equal be compared as they are?"""
        return self.types[mine] == types[other] and types[other].is_comparable

    def add(self, node: Node, text: str, types: Types) -> None:
        """Join one more."""
        pairs = self.pairs(node)
        self.is_open = self.is_open or bool(free(node) & self._around.keys())
        side = f"{text} {PREFIX}k{self._count}"
        self._count += 1
        self.types |= types
        if not self._text:
            self._text = side
            return
        ready = [c for c in self._waiting if used(c) <= self.types.keys()]
        self._waiting = [c for c in self._waiting if c not in ready]
        told = equal_classes(ready)
        on = [
            f"{mine.sql} = {other.sql}"  # which follows from what is not there yet
            for mine, other in pairs
            if not any({mine, other} <= one for one in told) and self._is_alike(mine, other, types)
        ]
        if ready:
            on.append(self._printed(ready, {**self._around, **self.types}))
        self._text += f" JOIN {side} ON {' AND '.join(on)}" if on else f" CROSS JOIN {side}"

    def query(self, cols: Sequence[Col], *, is_closed: bool = False) -> str:
        """Some columns of it; what cannot stand at a join stands in WHERE, if all is there.

        Args:
            is_closed: without the conditions that use columns of a query around.
        """
        known = self.types.keys() | (set() if is_closed else self._around.keys())
        there = [c for c in self._waiting if used(c) <= known]
        where = self._printed(there, {**self._around, **self.types})
        return f"SELECT {columns(cols)} FROM {self._text}" + (f" WHERE {where}" if there else "")

    def pairs(self, node: Node) -> list[tuple[Col, Col]]:
        """Columns that are there, each with one of a relation that must equal it."""
        found = []
        for equal in self._classes:
            ours = sorted(equal & self.types.keys(), key=lambda c: c.number)
            theirs = sorted(equal & set(node.columns), key=lambda c: c.number)
            if ours and theirs:
                found.append((ours[0], theirs[0]))
        return found
