"""What a continual task means, in plain Python: the definition the engine is compared with.

A table is a multiset of rows (key, value), either of which may be None. A history is a list of
changes of the input, each with the rows it inserts; a change without inserts does not run the
body. A body is a list of statements; each sees what the earlier ones proposed, and of its input
the rows inserted by this change and nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Row = tuple[int | None, int | None]
Rows = Counter[Row]


@dataclass(frozen=True)
class Statement:
    """A statement as SQL (``{task}`` stands for the output) and as a function.

    ``run`` takes what the output holds and what the change inserts, and gives what it holds then.
    """

    sql: str
    run: Callable[[Rows, Rows], Rows]


def task(body: Iterable[Statement], changes: Iterable[Rows]) -> Rows:
    """What the output holds after all changes."""
    held: Rows = Counter()
    statements = list(body)
    for inserted in changes:
        if inserted:
            for statement in statements:
                held = statement.run(held, inserted)
    return held


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


STATEMENTS = (
    Statement("INSERT INTO {task} SELECT k, v FROM feed", lambda held, new: held + new),
    Statement(
        "INSERT INTO {task} SELECT k, max(v) FROM feed GROUP BY k",
        lambda held, new: held + _maxima(new),
    ),
    Statement(
        "INSERT INTO {task} (v, k) SELECT v + 1, k FROM feed WHERE v > 1",
        lambda held, new: (
            held + Counter({(k, v + 1): n for (k, v), n in new.items() if v is not None and v > 1})
        ),
    ),
    Statement(
        "INSERT INTO {task} SELECT k, v FROM feed WHERE k NOT IN (SELECT k FROM {task})",
        lambda held, new: held + _keep(new, lambda row: _not_in(row[0], _keys(held))),
    ),
    Statement(
        "INSERT INTO {task} SELECT 0, count(*) FROM {task}",
        lambda held, _: held + Counter({(0, held.total()): 1}),
    ),
    Statement(
        "DELETE FROM {task} WHERE k IN (SELECT k FROM feed)",
        lambda held, new: _keep(held, lambda row: not _in(row[0], _keys(new))),
    ),
    Statement(
        "DELETE FROM {task} AS t"
        " WHERE EXISTS (SELECT 1 FROM feed f WHERE f.k <=> t.k AND f.v > t.v)",
        lambda held, new: _keep(
            held,
            lambda row: (
                not any(
                    k == row[0] and v is not None and row[1] is not None and v > row[1]
                    for k, v in new
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
)
