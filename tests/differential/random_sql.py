"""Random queries over three small tables, and random changes of them.

Everything follows from one seed. The queries are Spark SQL, exact (no ties that matter, no
doubles), and nested a few levels; the data are full of NULLs and duplicates.
"""

import random
from collections.abc import Callable

from ctsql.catalog.schemas import Column

TABLES = {
    "a": (Column("k", "int"), Column("v", "int"), Column("s", "string")),
    "b": (Column("k", "int"), Column("w", "int"), Column("s", "string")),
    "c": (Column("k", "int"), Column("x", "int"), Column("d", "decimal(10,2)")),
}
_INTEGERS = {"a": ("k", "v"), "b": ("k", "w"), "c": ("k", "x")}


class Maker:
    """Makes one query.

    Every derived relation has the integer columns ``k`` and ``n``, so they can be nested freely.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ctes: list[str] = []

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    # ---- relations with columns k and n

    def relation(self, depth: int) -> str:
        """Something that can stand in FROM before an alias."""
        if depth <= 0 or self.chance(25):
            table = self.pick(*TABLES)
            number = _INTEGERS[table][1]
            return f"(SELECT k, {number} AS n FROM {table})"
        if self.ctes and self.chance(20):
            return self.pick(*self.ctes)
        return f"({self.query(depth - 1)})"

    def query(self, depth: int) -> str:
        """A query with the columns k and n."""
        makers: list[Callable[[int], str]] = [
            self.select, self.select, self.grouped, self.grouped, self.joined, self.joined,
            self.side_joined, self.side_joined, self.set_operation, self.distinct,
            self.window, self.subquery, self.subquery, self.rollup, self.in_list, self.limited,
            self.view, self.values, self.lateral,
        ]  # fmt: skip
        return self.random.choice(makers)(depth)

    def condition(self, *names: str) -> str:
        """A predicate over some columns."""
        one = self.pick(*names)
        return self.pick(
            f"{one} > {self.random.randrange(4)}",
            f"{one} IS NOT NULL",
            f"{one} BETWEEN 1 AND 2",
            f"{one} % 2 = 0 OR {self.pick(*names)} IS NULL",
            f"coalesce({one}, 1) <= {self.pick(*names)}",
            f"CASE WHEN {one} = 1 THEN true ELSE {self.pick(*names)} > 1 END",
        )

    def select(self, depth: int) -> str:
        value = self.pick("n", "n + 1", "coalesce(n, k)", "CASE WHEN n > 1 THEN k END", "k * n")
        where = f" WHERE {self.condition('k', 'n')}" if self.chance(70) else ""
        return f"SELECT k, {value} AS n FROM {self.relation(depth)} q{where}"

    def grouped(self, depth: int) -> str:
        call = self.pick(
            "count(*)", "sum(n)", "min(n)", "max(n)", "count(DISTINCT n)", "count(n)",
            "sum(n) FILTER (WHERE n > 1)", "sum(n) + count(*)", "max(n) - min(n)",
        )  # fmt: skip
        having = self.pick("", "", " HAVING count(*) > 1", " HAVING max(n) IS NOT NULL")
        kind = self.random.randrange(5)
        source = self.relation(depth)
        where = f" WHERE {self.condition('k', 'n')}" if self.chance(30) else ""
        if kind == 0:
            return f"SELECT {self.random.randrange(3)} AS k, {call} AS n FROM {source} q{where}"
        if kind == 1:
            return f"SELECT k % 2 AS k, {call} AS n FROM {source} q{where} GROUP BY k % 2{having}"
        if kind == 2:
            return f"SELECT k, {call} AS n FROM {source} q{where} GROUP BY k, n % 2{having}"
        if kind == 3:
            return f"SELECT max(k) AS k, {call} AS n FROM {source} q{where} GROUP BY n{having}"
        return f"SELECT k, {call} AS n FROM {source} q{where} GROUP BY ALL{having}"

    def rollup(self, depth: int) -> str:
        sets = self.pick("ROLLUP(k, n)", "CUBE(k, n)", "GROUPING SETS ((k), (n), (k, n))")
        value = self.pick("count(*)", "grouping_id(k, n) * 10 + count(*)", "sum(n) + grouping(k)")
        # Without rows Spark and DuckDB differ in the row of the grand total.
        return (
            f"SELECT k, {value} AS n FROM (SELECT k, n FROM {self.relation(depth)} "
            f"UNION ALL SELECT 7, 7) q GROUP BY {sets}"
        )

    def joined(self, depth: int) -> str:
        left, right = self.relation(depth), self.relation(depth)
        on = self.pick(
            "p.k = q.k", "p.k = q.k AND p.n < q.n", "p.n = q.k", "p.k = q.n AND q.k IS NOT NULL"
        )
        third = ""
        if self.chance(30):
            third = f" JOIN {self.relation(depth - 1)} r ON r.k = {self.pick('p.k', 'q.n')}"
        if self.chance(25):
            return f"SELECT p.k, q.n FROM {left} p, {right} q WHERE {on}"
        if self.chance(20):
            return f"SELECT k, p.n + q.n AS n FROM {left} p JOIN {right} q USING (k)"
        return f"SELECT p.k, q.n FROM {left} p JOIN {right} q ON {on}{third}"

    def side_joined(self, depth: int) -> str:
        left, right = self.relation(depth), self.relation(depth)
        on = self.pick(
            "p.k = q.k", "p.k = q.k AND p.n <> q.n", "p.n = q.n AND p.k > 0", "p.k < q.k"
        )
        kind = self.pick("LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
        if kind == "FULL":  # DuckDB takes equalities only
            on = "p.k = q.k"
        if kind in ("LEFT SEMI", "LEFT ANTI"):
            return f"SELECT p.k, p.n FROM {left} p {kind} JOIN {right} q ON {on}"
        k, n = self.pick("p.k", "q.k", "coalesce(p.k, q.k)"), self.pick("p.n", "q.n")
        return f"SELECT {k} AS k, {n} AS n FROM {left} p {kind} JOIN {right} q ON {on}"

    def set_operation(self, depth: int) -> str:
        operator = self.pick(
            "UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"
        )
        return (
            f"SELECT k, n FROM {self.relation(depth)} p {operator} "
            f"SELECT n, k FROM {self.relation(depth)} q"
        )

    def distinct(self, depth: int) -> str:
        items = self.pick("k, n", "n AS k, k AS n", "k, 1 AS n")
        return f"SELECT DISTINCT {items} FROM {self.relation(depth)} q"

    def window(self, depth: int) -> str:
        call = self.pick(
            "rank() OVER (PARTITION BY k ORDER BY n)",
            "count(*) OVER (PARTITION BY k)",
            "sum(n) OVER (PARTITION BY k ORDER BY n)",
            "row_number() OVER (PARTITION BY k ORDER BY n DESC NULLS LAST)",
            "dense_rank() OVER (ORDER BY k, n)",
            "max(n) OVER (PARTITION BY k % 2)",
            "min(n) OVER w",
        )
        named = " WINDOW w AS (PARTITION BY k)" if call.endswith("w") else ""
        made = f"SELECT k, {call} AS n FROM {self.relation(depth)} q{named}"
        return f"SELECT k, n FROM ({made}) t WHERE n <= 2" if self.chance(40) else made

    def limited(self, depth: int) -> str:
        order = self.pick("k, n", "n DESC, k NULLS LAST", "(k) % 2 + n DESC, (n), k")
        limit = self.random.randrange(1, 4)
        return f"SELECT k, n FROM {self.relation(depth)} q ORDER BY {order} LIMIT {limit}"

    def in_list(self, depth: int) -> str:
        word = self.pick("IN", "NOT IN")
        value = self.pick("k", "n")
        inner = f"SELECT {self.pick('k', 'n')} FROM {self.relation(depth)} i"
        if self.chance(25):
            value = f"CASE WHEN n {word} ({inner}) THEN 1 ELSE 0 END"
            return f"SELECT k, {value} AS n FROM {self.relation(depth)} q"
        return f"SELECT k, n FROM {self.relation(depth)} q WHERE {value} {word} ({inner})"

    def subquery(self, depth: int) -> str:
        outer, inner = self.relation(depth), self.relation(depth)
        link = self.pick(
            "i.k = q.k", "i.n = q.k", "i.k = q.k AND i.n > 0", "i.k = q.k AND i.n <> q.n"
        )
        exists = f"EXISTS (SELECT 1 FROM {inner} i WHERE {link})"
        match self.random.randrange(6):
            case 0:
                return f"SELECT k, n FROM {outer} q WHERE {self.pick('', 'NOT ')}{exists}"
            case 1:
                call = self.pick("max(i.n)", "count(*)", "sum(i.n)", "min(i.k)")
                sub = f"(SELECT {call} FROM {inner} i WHERE i.k = q.k)"
                return f"SELECT k, {sub} AS n FROM {outer} q"
            case 2:
                return f"SELECT k, n FROM {outer} q WHERE n >= (SELECT min(n) FROM {inner} i)"
            case 3:
                sub = f"(SELECT count(*) FROM {inner} i WHERE i.k = q.k)"
                return f"SELECT k, n FROM {outer} q WHERE {sub} > 1 AND k IS NOT NULL"
            case 4:
                other = f"n IN (SELECT n FROM {self.relation(depth - 1)} j)"
                return f"SELECT k, n FROM {outer} q WHERE {exists} OR {other}"
            case _:
                some = f"EXISTS (SELECT 1 FROM {inner} i WHERE i.n > 2)"
                return f"SELECT k, n FROM {outer} q WHERE {some}"

    def view(self, depth: int) -> str:
        return (
            f"SELECT k, e AS n FROM {self.relation(depth)} q "
            "LATERAL VIEW explode(array(n, 5)) t AS e"
        )

    def lateral(self, depth: int) -> str:
        return (
            f"SELECT q.k, l.m AS n FROM {self.relation(depth)} q JOIN LATERAL "
            f"(SELECT max(i.n) AS m FROM {self.relation(depth)} i WHERE i.k = q.k) AS l ON true"
        )

    def values(self, depth: int) -> str:
        return (
            f"SELECT q.k, t.y AS n FROM {self.relation(depth)} q JOIN "
            "(VALUES (1, 10), (2, 20), (CAST(NULL AS INT), 30)) AS t(x, y) ON q.k = t.x"
        )

    def statement(self) -> str:
        """A whole query, maybe with common table expressions."""
        texts = []
        for number in range(self.random.choice((0, 0, 1, 2))):
            texts.append(f"e{number} AS ({self.query(1)})")
            self.ctes.append(f"e{number}")
        begin = f"WITH {', '.join(texts)} " if texts else ""
        return begin + self.query(self.random.choice((1, 1, 2, 2, 3)))


class CorrelatedMaker(Maker):
    """Makes one query around a subquery that uses the row around it, whatever is in between."""

    def _inner(self, depth: int) -> str:
        link = self.pick("i.k = q.k", "i.k = q.k", "i.n = q.k", "i.k = q.n AND i.n > 0")
        made = f"SELECT i.k, i.n FROM {self.relation(depth)} i WHERE {link}"
        for _ in range(self.random.choice((0, 1, 1, 2))):
            made = self._over(made, depth)
        return made

    def _over(self, rows: str, depth: int) -> str:
        ranked = "row_number() OVER (ORDER BY n DESC, k)"
        if self.chance(30):
            ranked = "rank() OVER (PARTITION BY k ORDER BY n)"
        return self.pick(
            f"SELECT k, n FROM ({rows}) f ORDER BY n DESC NULLS LAST, k LIMIT 1",
            f"SELECT k, n FROM ({rows}) f ORDER BY n NULLS LAST, k LIMIT 2",
            f"SELECT k, n FROM (SELECT k, n, {ranked} AS r FROM ({rows}) f) g WHERE r = 1",
            f"SELECT DISTINCT k, n FROM ({rows}) f",
            f"SELECT k, count(*) AS n FROM ({rows}) f GROUP BY k",
            f"SELECT k, max(n) AS n FROM ({rows}) f GROUP BY k HAVING count(*) > 1",
            f"SELECT f.k, h.n FROM ({rows}) f JOIN {self.relation(depth)} h ON f.n = h.k",
            f"SELECT k, n FROM ({rows}) f WHERE {self.condition('k', 'n')}",
            f"SELECT n AS k, k + 1 AS n FROM ({rows}) f",
        )

    def statement(self) -> str:
        """A whole query."""
        depth = self.random.choice((0, 0, 1))
        outer = f"FROM {self.relation(depth)} q"
        more = self.pick("", "", " WHERE f.n = q.n", " WHERE f.n > 1", " WHERE f.k = q.k")
        rows = f"FROM ({self._inner(depth)}) f{more}"
        call = self.pick("max(n)", "count(*)", "sum(n)")
        return self.pick(
            f"SELECT k, n {outer} WHERE EXISTS (SELECT 1 {rows})",
            f"SELECT k, n {outer} WHERE NOT EXISTS (SELECT 1 {rows})",
            f"SELECT k, n {outer} WHERE n IN (SELECT n {rows})",
            f"SELECT k, n {outer} WHERE n NOT IN (SELECT n {rows})",
            f"SELECT k, (SELECT {call} {rows}) AS n {outer}",
            f"SELECT k, CASE WHEN n IN (SELECT k {rows}) THEN 1 ELSE 0 END AS n {outer}",
            f"SELECT k, count(*) AS n {outer} WHERE EXISTS (SELECT 1 {rows}) GROUP BY k",
        )


def correlated(number: int) -> str:
    """A query of :class:`CorrelatedMaker`."""
    return CorrelatedMaker(number).statement()


def shaped(number: int) -> str:
    """A query whose keys are known before its change is, or are found in turn."""
    seed = random.Random(number)
    pick = seed.choice
    match seed.randrange(4):
        case 0:  # groups over an outer join
            on = pick(
                ("p.k = q.k", "p.k = q.k AND q.w > 1", "p.k = q.k AND p.v = q.w", "p.v < q.w")
            )
            key = pick(("p.k", "p.k, p.v", "p.v", "p.s"))
            call = pick(("count(q.w)", "max(q.w)", "min(p.v)", "count(DISTINCT q.s)"))
            joined = pick(("a p LEFT JOIN b q", "b q RIGHT JOIN a p"))
            where = pick(("", "", " WHERE p.v IS NOT NULL", " WHERE q.w IS NULL"))
            grouped = f"SELECT {call} AS n FROM {joined} ON {on}{where} GROUP BY {key}"
            return pick((grouped, f"SELECT n, count(*) AS m FROM ({grouped}) GROUP BY n"))
        case 1:  # tables behind a filtered one
            tables = "a p, b q, c r"
            first = pick(
                ("p.k = q.k", "p.k = q.w", "(p.k = q.k AND q.w = 1 OR q.k = p.k AND p.v = 2)")
            )
            second = pick(("p.v = r.k", "q.w = r.x", "p.k = r.k"))
            tests = pick(("q.w > 0", "r.x = 1", "q.w = 1 AND r.x > 0", "p.v <= 2 AND q.s = 'x'"))
            where = f"{first} AND {second} AND {tests}"
            if seed.randrange(2):
                return f"SELECT p.k, p.v, q.w, r.d FROM {tables} WHERE {where}"
            call, key = pick(("sum(p.v)", "max(r.d)", "count(*)")), pick(("p.k", "r.k", "q.w"))
            return f"SELECT {key} AS g, {call} AS n FROM {tables} WHERE {where} GROUP BY {key}"
        case 2:  # the first groups
            call = pick(("sum(v)", "count(v)", "count(*)"))
            having = pick(("", "", " HAVING count(*) > 1"))
            source = pick(("a", "(SELECT a.k, w AS v FROM a JOIN b ON a.k = b.k)"))
            shown, order = pick(
                (
                    ("k, ", "n DESC, k"),
                    ("k, ", "n, k DESC"),
                    ("k, ", "n % 2 + k, (n), k"),
                    ("", "n NULLS LAST"),
                )
            )
            grouped = f"SELECT {shown}{call} AS n FROM {source} GROUP BY k{having}"
            return f"{grouped} ORDER BY {order} LIMIT {seed.randrange(1, 4)}"
        case _:  # a subquery with several conditions, over a join
            asked = pick(("i.k = p.k", "i.k = p.k AND i.w = p.v", "i.w = q.w AND i.k = p.k"))
            call = pick(("max(i.w)", "count(*)", "sum(i.w)"))
            sub = f"(SELECT {call} FROM b i WHERE {asked})"
            test = pick((f"p.v < {sub}", f"EXISTS {sub.replace(call, '1')}", f"{sub} > 1"))
            return f"SELECT p.k, q.w FROM a p JOIN b q ON p.k = q.k WHERE q.w > 0 AND {test}"


def rows(seed: random.Random, table: str, most: int) -> list[str]:
    """Rows of a table as SQL tuples."""

    def number() -> str:
        return seed.choice(("NULL", "0", "1", "1", "2", "3"))

    third = {
        "c": lambda: seed.choice(("NULL", "1.25", "2.50", "0.00")),
    }.get(table, lambda: seed.choice(("NULL", "'x'", "'y'")))
    return [f"({number()}, {number()}, {third()})" for _ in range(seed.randrange(most + 1))]
