"""What a continual task means, in plain Python: the definition the engine is compared with.

A table is a multiset of rows (key, value), either of which may be None. A history is a list of
changes of two tables, feed and side, one of them at a time: what it inserts and deletes, net,
and what feed holds then. The body is run for a change of an input that inserts rows, or that
deletes rows if the body reads deletes, and for no other. A body is a list of statements; each
sees what the earlier ones proposed, and of its inputs what this change does and nothing else.
With iterations the whole body is run again, with the same change, until nothing changes or it
was run that often. A task with two outputs is the same with two multisets: each statement writes
one of them and may read both.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Row = tuple[int | None, int | None]
Rows = Counter[Row]


@dataclass(frozen=True)
class Change:
    """What happens at one time: to feed, and what side inserts."""

    inserts: Rows
    deletes: Rows
    contents: Rows
    side: Rows = field(default_factory=Counter)


@dataclass(frozen=True)
class Statement:
    """A statement as SQL (``{task}`` stands for the output) and as a function.

    ``run`` takes what the output holds and the input's change, and gives what it holds then.
    """

    sql: str
    run: Callable[[Rows, Change], Rows]

    @property
    def reads_side(self) -> bool:
        """Must side be an input?"""
        return "side" in self.sql

    @property
    def reads_deletes(self) -> bool:
        """Does a task with this statement run for deletes too?"""
        return "deletes(feed)" in self.sql or "changes(feed)" in self.sql


@dataclass(frozen=True)
class Crossing:
    """A statement that writes one of two outputs and reads the other (``{other}``).

    ``run`` takes what its output holds, what the other one holds, and the input's change.
    """

    sql: str
    run: Callable[[Rows, Rows, Change], Rows]

    reads_side = False
    reads_deletes = False


def task(
    body: Iterable[Statement],
    changes: Iterable[Change],
    *,
    iterations: int = 1,
    follows_side: bool = False,
) -> Rows:
    """What the output holds after all changes; feed is an input, side may be."""
    placed = [(0, statement) for statement in body]
    return outputs(placed, changes, iterations=iterations, follows_side=follows_side)[0]


def outputs(
    body: Iterable[tuple[int, Statement | Crossing]],
    changes: Iterable[Change],
    *,
    iterations: int = 1,
    follows_side: bool = False,
) -> tuple[Rows, Rows]:
    """What two outputs of one task hold; each statement with the number of the one it writes."""
    both: list[Rows] = [Counter(), Counter()]
    statements = list(body)
    for change in changes:
        is_due = bool(
            change.inserts
            or (change.deletes and any(s.reads_deletes for _, s in statements))
            or (change.side and follows_side)
        )
        if not is_due:
            continue
        for _ in range(iterations):
            before = [+held for held in both]
            for place, statement in statements:
                if isinstance(statement, Crossing):
                    both[place] = statement.run(both[place], both[1 - place], change)
                else:
                    both[place] = statement.run(both[place], change)
            if [+held for held in both] == before:
                break
    return both[0], both[1]


def _keep(held: Rows, leave: Callable[[Row], bool]) -> Rows:
    return Counter({row: n for row, n in held.items() if leave(row)})


def _maxima(rows: Rows) -> Rows:
    best: dict[int | None, int | None] = {}
    for k, v in rows:
        known = best.get(k)
        best[k] = v if known is None else known if v is None else max(known, v)
    return Counter(best.items())


def _keys(rows: Rows) -> set[int | None]:
    return {k for k, _ in rows}


def _in(key: int | None, keys: set[int | None]) -> bool:
    """SQL's ``key IN (keys)`` is true: NULL equals nothing."""
    return key is not None and key in keys


def _not_in(key: int | None, keys: set[int | None]) -> bool:
    """SQL's ``key NOT IN (keys)`` is true: one NULL among them makes it unknown."""
    return not keys or (key is not None and None not in keys and key not in keys)


def _mapped(held: Rows, change: Callable[[Row], Row | None]) -> Rows:
    """Each row as ``change`` makes it; None takes it away."""
    found: Rows = Counter()
    for row, copies in held.items():
        made = change(row)
        if made is not None:
            found[made] += copies
    return found


def _diffs(change: Change) -> Rows:
    """(key, diff) of each changed row."""
    found: Rows = Counter()
    for sign, rows in ((1, change.inserts), (-1, change.deletes)):
        for (k, _), copies in rows.items():
            found[k, sign * copies] += 1
    return found


def _counts(rows: Rows) -> Rows:
    keys = Counter(k for k, _ in rows.elements())
    return Counter(dict.fromkeys(keys.items(), 1))


def _upserted(held: Rows, change: Change) -> Rows:
    source = dict(_maxima(change.inserts).keys())

    def merged(row: Row) -> Row | None:
        k, v = row
        if k is None or k not in source:
            return row
        given = source[k]
        if given is None:
            return None
        return (k, given) if v is not None and given > v else row

    keys = {k for k, _ in held if k is not None}
    fresh = Counter({(k, v): 1 for k, v in source.items() if k not in keys})
    return _mapped(held, merged) + fresh


def _swept(held: Rows, change: Change) -> Rows:
    keys = {k for k, _ in change.deletes if k is not None}

    def merged(row: Row) -> Row | None:
        k, v = row
        if k in keys:
            return None
        return (k, None) if v == 0 else row

    return _mapped(held, merged)


STATEMENTS = (
    Statement("INSERT INTO {task} SELECT k, v FROM feed", lambda held, new: held + new.inserts),
    Statement(
        "INSERT INTO {task} SELECT k, max(v) FROM feed GROUP BY k",
        lambda held, new: held + _maxima(new.inserts),
    ),
    Statement(
        "INSERT INTO {task} (v, k) SELECT v + 1, k FROM feed WHERE v > 1",
        lambda held, new: (
            held
            + Counter(
                {(k, v + 1): n for (k, v), n in new.inserts.items() if v is not None and v > 1}
            )
        ),
    ),
    Statement(
        "INSERT INTO {task} SELECT k, v FROM feed WHERE k NOT IN (SELECT k FROM {task})",
        lambda held, new: held + _keep(new.inserts, lambda row: _not_in(row[0], _keys(held))),
    ),
    Statement(
        "INSERT INTO {task} SELECT 0, count(*) FROM {task}",
        lambda held, _: held + Counter({(0, held.total()): 1}),
    ),
    Statement(
        "DELETE FROM {task} WHERE k IN (SELECT k FROM feed)",
        lambda held, new: _keep(held, lambda row: not _in(row[0], _keys(new.inserts))),
    ),
    Statement(
        "DELETE FROM {task} AS t"
        " WHERE EXISTS (SELECT 1 FROM feed f WHERE f.k <=> t.k AND f.v > t.v)",
        lambda held, new: _keep(
            held,
            lambda row: (
                not any(
                    k == row[0] and v is not None and row[1] is not None and v > row[1]
                    for k, v in new.inserts
                )
            ),
        ),
    ),
    Statement(
        "DELETE FROM {task} WHERE v < 2",
        lambda held, _: _keep(held, lambda row: row[1] is None or row[1] >= 2),
    ),
    Statement(
        "DELETE FROM {task} WHERE v = (SELECT max(v) FROM {task})",
        lambda held, _: _keep(
            held,
            lambda row: row[1] is None or row[1] != max(v for _, v in held if v is not None),
        ),
    ),
    Statement("DELETE FROM {task}", lambda _held, _new: Counter()),
    Statement(
        "INSERT INTO {task} SELECT * FROM deletes(feed)", lambda held, new: held + new.deletes
    ),
    Statement(
        "INSERT INTO {task} SELECT k, diff FROM changes(feed)",
        lambda held, new: held + _diffs(new),
    ),
    Statement(
        "INSERT INTO {task} SELECT k, count(*) FROM contents(feed) GROUP BY k",
        lambda held, new: held + _counts(new.contents),
    ),
    Statement(
        "DELETE FROM {task} WHERE k IN (SELECT k FROM deletes(feed))",
        lambda held, new: _keep(held, lambda row: not _in(row[0], _keys(new.deletes))),
    ),
    Statement(
        "UPDATE {task} SET v = v + 1 WHERE k IN (SELECT k FROM inserts(feed))",
        lambda held, new: _mapped(
            held,
            lambda row: (
                (row[0], None if row[1] is None else row[1] + 1)
                if _in(row[0], _keys(new.inserts))
                else row
            ),
        ),
    ),
    Statement(
        "INSERT INTO {task} SELECT k, v FROM side UNION ALL SELECT 9, count(*) FROM feed",
        lambda held, new: held + new.side + Counter({(9, new.inserts.total()): 1}),
    ),
    Statement(
        "UPDATE {task} AS t SET t.k = v, v = k",
        lambda held, _: _mapped(held, lambda row: (row[1], row[0])),
    ),
    Statement(
        "MERGE INTO {task} AS t USING (SELECT k, max(v) AS v FROM feed GROUP BY k) AS s"
        " ON t.k = s.k WHEN MATCHED AND s.v IS NULL THEN DELETE"
        " WHEN MATCHED AND s.v > t.v THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
        _upserted,
    ),
    Statement(
        "MERGE INTO {task} AS t USING deletes(feed) AS d ON t.k = d.k WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE AND t.v = 0 THEN UPDATE SET v = DEFAULT",
        _swept,
    ),
)
CROSSINGS = (
    Crossing(
        "INSERT INTO {task} SELECT k, v FROM {other} WHERE k IN (SELECT k FROM feed)",
        lambda held, other, new: held + _keep(other, lambda row: _in(row[0], _keys(new.inserts))),
    ),
    Crossing(
        "DELETE FROM {task} WHERE k IN (SELECT k FROM {other})",
        lambda held, other, _: _keep(held, lambda row: not _in(row[0], _keys(other))),
    ),
    Crossing(
        "UPDATE {task} SET v = (SELECT max(v) FROM {other}) WHERE v IS NULL",
        lambda held, other, _: _mapped(
            held,
            lambda row: (
                (row[0], max((v for _, v in +other if v is not None), default=None))
                if row[1] is None
                else row
            ),
        ),
    ),
    Crossing(
        "MERGE INTO {task} AS t USING (SELECT DISTINCT k FROM {other}) AS s ON t.k = s.k"
        " WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)",
        lambda held, other, _: (
            _mapped(held, lambda row: (row[0], 0) if _in(row[0], _keys(+other)) else row)
            + Counter({(k, None): 1 for k in _keys(+other) if not _in(k, _keys(+held))})
        ),
    ),
)
"""Statements that tie two outputs of a task together."""
