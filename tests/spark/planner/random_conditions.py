"""Random conditions with subqueries, over three small tables full of NULLs."""

import random

COMPARISONS = ("=", "<>", "<", ">=", "IS NOT DISTINCT FROM", "IS DISTINCT FROM")


class Conditions:
    """Random conditions on table t, with subqueries over s and u that see it or do not."""

    def __init__(self, seed: random.Random) -> None:
        self._seed = seed

    def rows(self) -> list[tuple[int | None, int | None]]:
        """Some rows of k and n, many of them equal or NULL."""
        count = self._seed.choice((0, 1, 2, 4, 6))
        return [(self._value(), self._value()) for _ in range(count)]

    def _value(self) -> int | None:
        return self._seed.choice((None, 0, 1, 2))

    def _column(self, table: str) -> str:
        return f"{table}.{self._seed.choice('kn')}"

    def _compared(self, left: str, right: str | None = None) -> str:
        right = self._seed.choice("012") if right is None else right
        return f"{left} {self._seed.choice(COMPARISONS)} {right}"

    def _inner(self) -> str:
        kinds = (
            lambda: self._compared(self._column("s"), self._column("t")),
            lambda: self._compared(self._column("s")),
            lambda: self._compared(self._column("t")),
            lambda: f"{self._column('s')} IS NULL",
            lambda: f"({self._compared('s.k', 't.n')} OR {self._compared('s.n', 't.k')})",
            lambda: self._compared("s.k + t.k", "s.n"),
        )
        tests = [self._seed.choice(kinds)() for _ in range(self._seed.randrange(3))]
        return " AND ".join(tests) or "true"

    def _predicate(self) -> str:
        sources = (
            "s",
            "(SELECT DISTINCT k, n FROM s) s",
            "(SELECT k, n FROM s ORDER BY k NULLS FIRST, n NULLS FIRST LIMIT 2) s",
            "(SELECT k, sum(n) AS n FROM s GROUP BY k) s",
            "s JOIN u ON s.k = u.k",
        )
        below = f"FROM {self._seed.choice(sources)} WHERE {self._inner()}"
        aggregates = ("max(s.n)", "min(s.k)", "count(*)", "count(s.n)", "sum(s.k)")
        scalar = f"(SELECT {self._seed.choice(aggregates)} {below})"
        kinds = (
            lambda: f"EXISTS (SELECT 1 {below})",
            lambda: f"NOT EXISTS (SELECT 1 {below})",
            lambda: f"{self._column('t')} IN (SELECT {self._column('s')} {below})",
            lambda: f"{self._column('t')} NOT IN (SELECT {self._column('s')} {below})",
            lambda: self._compared("t.n", scalar),
            lambda: f"{scalar} IS NULL",
            lambda: f"t.k IN (SELECT s.k {below} GROUP BY s.k)",
            lambda: self._compared(self._column("t")),
            lambda: self._compared("t.n", "t.k"),
        )
        return self._seed.choice(kinds)()

    def condition(self) -> str:
        """One more."""
        first, second = self._predicate(), self._predicate()
        return self._seed.choice(
            (
                first,
                f"({first}) OR ({second})",
                f"({first}) AND ({second})",
                f"NOT ({first})",
                f"({first}) OR NOT ({second})",
                f"NOT (({first}) OR ({second}))",
                f"CASE WHEN {first} THEN 1 ELSE 0 END = 0",
                f"({first}) IS NULL",
                f"coalesce({first}, t.k = 1)",
                f"({self._compared('t.n')}) OR ({self._compared('t.n')})",
                f"({self._compared('t.n')}) AND NOT ({self._compared('t.n')})",
            )
        )
