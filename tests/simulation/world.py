"""What is simulated: sources, tasks and views, with what their definitions mean in plain Python.

The engine binds the definitions as it always does. Only where it would hand a plan to Spark, the
Python function of the same meaning runs instead: :func:`without_spark` puts it there.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item, ObjectKind, Reading
from ctsql.catalog.names import DEFAULT_SCHEMA, Name
from ctsql.catalog.schemas import Column
from ctsql.planner.binding import Bound, bind_stored
from ctsql.planner.lowering import Context, Proposal
from ctsql.planner.nodes import Transaction, ViewWrite
from ctsql.runtime import objects, sources, timeline
from ctsql.runtime.sinks import ct, mv, runs
from ctsql.runtime.sinks.cancel import cancel
from ctsql.runtime.write_handle import Attempt
from tests.simulation.memory_log import Functions, Rows
from tests.simulation.memory_store import Bag

BAD = 13
"""A value at which the strict definitions fail, as 1 / (v - 13) does."""
COLUMNS = (Column("k", "int"), Column("v", "int"))


class Fails(Exception):
    """A definition cannot be computed on these rows."""


@dataclass(frozen=True)
class Task:
    """A task: ``body`` gives what it deletes and inserts, from what is held and what is new."""

    name: str
    reads: str
    text: str
    body: Callable[[Bag, Bag], tuple[Bag, Bag]]

    @property
    def definition(self) -> str:
        """The statement that makes it."""
        return f"CREATE CONTINUAL TASK {self.name} (k INT, v INT) ON INPUT {self.reads} {self.text}"


@dataclass(frozen=True)
class View:
    """A materialized view: ``query`` gives its rows from the contents of what it reads."""

    name: str
    reads: tuple[str, ...]
    text: str
    query: Callable[..., Bag]

    @property
    def definition(self) -> str:
        """The statement that makes it."""
        return f"CREATE MATERIALIZED VIEW {self.name} AS {self.text}"


def _append(held: Bag, new: Bag) -> tuple[Bag, Bag]:
    return Counter(), Counter(new)


def _upsert(held: Bag, new: Bag) -> tuple[Bag, Bag]:
    keys = {k for k, _ in new}
    best = {k: max(v for j, v in new if j == k) for k in keys}
    return Counter({row: n for row, n in held.items() if row[0] in keys}), Counter(best.items())


def _count(held: Bag, new: Bag) -> tuple[Bag, Bag]:
    return Counter(held), Counter({(0, sum(v for _, v in held) + new.total()): 1})


def _strict(held: Bag, new: Bag) -> tuple[Bag, Bag]:
    if any(v == BAD for _, v in new):
        raise Fails
    return Counter(), Counter(new)


def _some(held: Bag, new: Bag) -> tuple[Bag, Bag]:
    return Counter(), Counter({row: n for row, n in new.items() if row[1] > 5})


def _sums(a: Bag, b: Bag) -> Bag:
    sums: Counter[int] = Counter()
    for (k, v), n in (*a.items(), *b.items()):
        sums[k] += v * n
    return Counter(dict.fromkeys(sums.items(), 1))


def _distinct(a: Bag) -> Bag:
    return Counter(dict.fromkeys(a, 1))


def _checked(a: Bag) -> Bag:
    if any(v == BAD for _, v in a):
        raise Fails
    return Counter(a)


def _all(a: Bag, b: Bag) -> Bag:
    return a + b


TASKS = (
    Task("audit", "s0", "AS (INSERT INTO audit SELECT k, v FROM s0)", _append),
    Task(
        "best",
        "s0",
        "AS (DELETE FROM best WHERE k IN (SELECT k FROM s0);"
        " INSERT INTO best SELECT k, max(v) FROM s0 GROUP BY k)",
        _upsert,
    ),
    Task(
        "total",
        "s1",
        "AS (INSERT INTO total SELECT 0, s + (SELECT count(*) FROM s1)"
        " FROM (SELECT coalesce(sum(v), 0) AS s FROM total); DELETE FROM total)",
        _count,
    ),
    Task("some", "s1", "AS (INSERT INTO some SELECT k, v FROM s1 WHERE v > 5)", _some),
    Task("strict", "s1", "AS (INSERT INTO strict SELECT k, v FROM s1)", _strict),
    Task(
        "lenient",
        "s1",
        "WITH (ON ERROR = 'skip') AS (INSERT INTO lenient SELECT k, v FROM s1)",
        _strict,
    ),
    Task("chain", "best", "AS (INSERT INTO chain SELECT k, v FROM best)", _append),
    Task("after", "strict", "AS (INSERT INTO after SELECT k, v FROM strict)", _append),
    Task("follower", "kinds", "AS (INSERT INTO follower SELECT k, v FROM kinds)", _append),
    Task("watch", "checked", "AS (INSERT INTO watch SELECT k, v FROM checked)", _append),
    Task(
        "patient",
        "both",
        "WITH (ON ERROR = 'skip') AS (INSERT INTO patient SELECT k, v FROM both)",
        _append,
    ),
    Task("seer", "both", "AS (INSERT INTO seer SELECT k, v FROM both)", _append),
)
VIEWS = (
    View("sums", ("s0", "s1"), "SELECT k, v FROM s0 UNION ALL SELECT k, v FROM s1", _sums),
    View("kinds", ("s0",), "SELECT DISTINCT k, v FROM s0", _distinct),
    View("checked", ("s1",), "SELECT k, v FROM s1", _checked),
    View("both", ("checked", "s0"), "SELECT k, v FROM checked UNION ALL SELECT k, v FROM s0", _all),
    View("over", ("audit",), "SELECT DISTINCT k, v FROM audit", _distinct),
    View("tops", ("best",), "SELECT DISTINCT k, v FROM best", _distinct),
)
SOURCES = ("s0", "s1")
DEFINED: dict[str, Task | View] = {d.name: d for d in (*TASKS, *VIEWS)}


def reads_of(name: str) -> tuple[str, ...]:
    """The names of what an object reads, its own left out."""
    if name in SOURCES:
        return ()
    defined = DEFINED[name]
    return (defined.reads,) if isinstance(defined, Task) else defined.reads


def chosen(rng: random.Random) -> list[str]:
    """A few objects with all they read, each after what it reads."""
    wanted = list(SOURCES)

    def add(name: str) -> None:
        for read in reads_of(name):
            add(read)
        if name not in wanted:
            wanted.append(name)

    for name in rng.sample(sorted(DEFINED), rng.randint(1, 3)):
        add(name)
    return wanted


def item(name: str, created: int) -> Item:
    """The catalog's entry of an object; its id and its folder are its name."""
    kind, definition = ObjectKind.TABLE, ""
    read = list(reads_of(name))
    if name in DEFINED:
        definition = DEFINED[name].definition
        kind = ObjectKind.MATERIALIZED_VIEW
        if isinstance(DEFINED[name], Task):
            kind = ObjectKind.CONTINUAL_TASK
            read.append(name)
    return Item(
        id=name,
        kind=kind,
        name=Name(DEFAULT_SCHEMA, name),
        columns=COLUMNS,
        definition=definition,
        reads=tuple(
            Reading(name=Name(DEFAULT_SCHEMA, r), object_id=r, columns=("k", "v")) for r in read
        ),
        location=name,
        created=created,
    )


# ---- in the place of Spark


def _failed() -> Exception:
    return error("DATA_ERROR", message="division by zero", detail="", hint="")


class Inserts:
    """An input's change of which the bodies here see the inserts only."""

    def __init__(
        self, _nothing: object, added: Any = None, held: Any = None, changed: Any = None
    ) -> None:
        self.inserts = added if added is not None else changed


def lower_transaction(node: Transaction, context: Context) -> Proposal:
    """What a body proposes, by its Python function."""
    found: Any = context.sources
    owner, _ = found.output
    task = DEFINED[owner.id]
    assert isinstance(task, Task)
    new = found.inserts(task.reads, context.at).bag()
    stored: Rows = found.stored(owner.id) or Rows(())
    try:
        deletes, inserts = task.body(stored.bag(), new)
    except Fails:
        raise _failed() from None
    victims, places = [], []
    for row, place in zip(stored.rows, stored.places, strict=True):
        if deletes[row] > 0:
            deletes[row] -= 1
            victims.append(row)
            places.append(place)
    proposal: Any = Proposal
    return proposal(inserts=Rows(inserts.elements()), victims=Rows(victims, places))  # type: ignore[no-any-return]


def lower_view(plan: ViewWrite, context: Context) -> Rows:
    """A view's rows, by its Python function."""
    view = DEFINED[plan.object_id]
    assert isinstance(view, View)
    found: Any = context.sources
    read = [found.contents(name, context.at).bag() for name in view.reads]
    try:
        return Rows(view.query(*read).elements())
    except Fails:
        raise _failed() from None


def stage(
    attempt: Attempt, desired: Rows | None, stored: Rows | None, columns: list[str], *, small: bool
) -> bool:
    """Stage the difference as the engine's small way does, with the same cancelling."""
    wanted, held = desired or Rows(()), stored or Rows(())
    left = cancel(wanted.rows, held.rows)
    handle: Any = attempt
    if left.inserts:
        handle.stage(Rows(wanted.rows[i] for i in left.inserts))
    victims: dict[str, set[int]] = {}
    for i in left.deletes:
        path, number = held.places[i]
        victims.setdefault(path, set()).add(number)
    if victims:
        handle.delete_rows([(path, frozenset(at)) for path, at in victims.items()])
    return bool(left.inserts or victims)


_bound: dict[Item, Bound] = {}


def bind(wanted: Item, catalog: Catalog) -> Bound:
    """What the engine's binder makes of a definition, bound once for all runs."""
    if wanted not in _bound:
        _bound[wanted] = bind_stored(wanted, catalog)
    return _bound[wanted]


@contextmanager
def without_spark() -> Iterator[None]:
    """The functions above in the place of those that build DataFrames."""
    with ExitStack() as stack:
        for module, name, function in (
            (ct, "propose", lambda node, context, _: lower_transaction(node, context)),
            (ct, "stage", stage),
            (runs, "few", lambda rows: rows),
            (runs, "only_inserts", lambda rows: rows),
            (runs, "InputChange", Inserts),
            (mv, "lower_view", lower_view),
            (mv, "stage", stage),
            (sources, "lower_view", lower_view),
            (timeline, "F", Functions),
            (objects, "bind_stored", bind),
            (objects, "net_change", lambda rows, _: rows),
        ):
            stack.enter_context(mock.patch.object(module, name, function))
        yield
