"""What is simulated: sources, tasks and views, with what their definitions mean in plain Python.

The engine binds the definitions as it always does. Only where it would hand a plan to Spark, the
Python function of the same meaning runs instead (:mod:`tests.simulation.model_engine`).
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ctsql.catalog.items import Item, ObjectKind, Reading
from ctsql.catalog.names import DEFAULT_SCHEMA, Name
from ctsql.catalog.schemas import Column
from tests.helpers.items import an_item
from tests.simulation.memory_store import COLUMNS, Bag

BAD = 13
"""A value at which the strict definitions fail, as 1 / (v - 13) does."""


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
        return f"CREATE CONTINUAL TASK {self.name} (k INT, v INT) ON INPUT {self.reads} {self.text}"


@dataclass(frozen=True)
class Several:
    """A task with several outputs, the first of which leads.

    ``body`` gives what it deletes from each and inserts into each, from what they hold and what is
    new.
    """

    name: str
    reads: str
    outputs: tuple[str, ...]
    text: str
    body: Callable[[Sequence[Bag], Bag], Sequence[tuple[Bag, Bag]]]

    @property
    def definition(self) -> str:
        listed = ", ".join(f"{o} (k INT, v INT)" for o in self.outputs)
        made = f"CREATE CONTINUAL TASK {self.name} OUTPUTS ({listed})"
        return f"{made} ON INPUT {self.reads} {self.text}"


@dataclass(frozen=True)
class Part:
    """One output of a task with several."""

    name: str
    task: Several


@dataclass(frozen=True)
class View:
    """A materialized view: ``query`` gives its rows from the contents of what it reads."""

    name: str
    reads: tuple[str, ...]
    text: str
    query: Callable[..., Bag]
    policy: str = "incremental"

    @property
    def definition(self) -> str:
        policy = f"WITH (REFRESH POLICY = {self.policy})"
        return f"CREATE MATERIALIZED VIEW {self.name} {policy} AS {self.text}"


def _append(stored: Bag, new: Bag) -> tuple[Bag, Bag]:
    return Counter(), Counter(new)


def _upsert(stored: Bag, new: Bag) -> tuple[Bag, Bag]:
    keys = {k for k, _ in new}
    best = {k: max(v for j, v in new if j == k) for k in keys}
    return Counter({row: n for row, n in stored.items() if row[0] in keys}), Counter(best.items())


def _count(stored: Bag, new: Bag) -> tuple[Bag, Bag]:
    return Counter(stored), Counter({(0, sum(v for _, v in stored) + new.total()): 1})


def _strict(stored: Bag, new: Bag) -> tuple[Bag, Bag]:
    if any(v == BAD for _, v in new):
        raise Fails
    return Counter(), Counter(new)


def _some(stored: Bag, new: Bag) -> tuple[Bag, Bag]:
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


def _split(stored: Sequence[Bag], new: Bag) -> Sequence[tuple[Bag, Bag]]:
    low, high = (
        Counter({r: n for r, n in new.items() if (r[1] > 5) is up}) for up in (False, True)
    )
    return (Counter(), low), (Counter(), high)


def _ledger(stored: Sequence[Bag], new: Bag) -> Sequence[tuple[Bag, Bag]]:
    _, newest = stored
    gone, fresh = _upsert(newest, new)
    if any(v == BAD for _, v in new):
        raise Fails
    return (Counter(), gone), (gone, fresh)


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
    View("tops", ("best",), "SELECT DISTINCT k, v FROM best", _distinct, policy="auto"),
)
SEVERAL = (
    Several(
        "split",
        "s0",
        ("low", "high"),
        "AS (INSERT INTO low SELECT k, v FROM s0 WHERE v <= 5;"
        " INSERT INTO high SELECT k, v FROM s0 WHERE v > 5)",
        _split,
    ),
    # The one that leads is made from what the other one held before T.
    Several(
        "ledger",
        "s1",
        ("replaced", "newest"),
        "AS (INSERT INTO replaced SELECT k, v FROM newest WHERE k IN (SELECT k FROM s1);"
        " DELETE FROM newest WHERE k IN (SELECT k FROM s1);"
        " INSERT INTO newest SELECT k, max(v) FROM s1 GROUP BY k)",
        _ledger,
    ),
)
PARTS = tuple(Part(o, t) for t in SEVERAL for o in t.outputs)
OF_SEVERAL = (
    Task("lows", "low", "AS (INSERT INTO lows SELECT k, v FROM low)", _append),
    Task("behind", "newest", "AS (INSERT INTO behind SELECT k, v FROM newest)", _append),
    View(
        "united",
        ("low", "high"),
        "SELECT k, v FROM low UNION ALL SELECT k, v FROM high",
        _all,
    ),
    View(
        "accounts",
        ("replaced", "newest"),
        "SELECT k, v FROM replaced UNION ALL SELECT k, v FROM newest",
        _all,
    ),
)
SOURCES = ("s0", "s1")
Defined = Task | View | Several | Part
DEFINED: dict[str, Defined] = {d.name: d for d in (*TASKS, *VIEWS, *SEVERAL, *PARTS, *OF_SEVERAL)}


def reads_of(name: str) -> tuple[str, ...]:
    """The names of what an object reads, its own left out; of an output what its task reads."""
    if name in SOURCES:
        return ()
    defined = DEFINED[name]
    if isinstance(defined, View):
        return defined.reads
    return (defined.task.reads,) if isinstance(defined, Part) else (defined.reads,)


def task_of(name: str) -> str:
    """Whose body writes an object: of an output its task."""
    defined = DEFINED[name]
    return defined.task.name if isinstance(defined, Part) else name


def is_task(name: str) -> bool:
    """Is it written by a body, at every T at which that proposes something?"""
    return not isinstance(DEFINED[name], View)


def chosen(rng: random.Random) -> list[str]:
    """A few objects with all they read, each after what it reads."""
    singles = sorted(d.name for d in (*TASKS, *VIEWS))
    return with_reads(rng.sample(singles, rng.randint(1, 3)))


def chosen_of_several(rng: random.Random) -> list[str]:
    """Tasks with several outputs, and what reads those."""
    wanted = with_reads(
        rng.sample(sorted(d.name for d in (*PARTS, *OF_SEVERAL)), rng.randint(1, 3))
    )
    return [name for name in wanted if name not in SOURCES]


def with_reads(names: Sequence[str]) -> list[str]:
    """Objects with all they read, each after that; a task with several outputs with all those."""
    wanted = list(SOURCES)

    def add(name: str) -> None:
        for read in reads_of(name):
            add(read)
        defined = DEFINED.get(name)
        group = [name]
        if isinstance(defined, Part):
            group = [defined.task.name, *defined.task.outputs]
        wanted.extend(n for n in group if n not in wanted)

    for name in names:
        add(name)
    return wanted


def item(name: str, created_at: int) -> Item:
    """The catalog's entry of an object; its id and its folder are its name."""
    kind, definition, outputs = ObjectKind.TABLE, "", ()
    read = list(reads_of(name))
    match DEFINED.get(name):
        case View() as view:
            kind, definition = ObjectKind.MATERIALIZED_VIEW, view.definition
        case Task() as task:
            kind, definition = ObjectKind.CONTINUAL_TASK, task.definition
            read.append(name)
        case Several() as task:
            kind, definition, outputs = ObjectKind.CONTINUAL_TASK, task.definition, task.outputs
        case Part() as part:
            kind, read = ObjectKind.TASK_OUTPUT, [part.task.name]
    columns = () if outputs else COLUMNS
    return entry(name, kind, definition, read, created_at, columns, outputs=outputs)


def entry(
    name: str,
    kind: ObjectKind,
    definition: str,
    reads: Sequence[str],
    created_at: int,
    columns: tuple[Column, ...] = COLUMNS,
    **more: Any,
) -> Item:
    """An entry whose id and folder are its name; it has no folder without columns."""
    place = name if columns else None
    return an_item(
        id=name,
        kind=kind,
        columns=columns,
        definition=definition,
        reads=tuple(
            Reading(name=Name(DEFAULT_SCHEMA, r), object_id=r, columns=("k", "v")) for r in reads
        ),
        location=place,
        table_id=place,
        created_at=created_at,
        **more,
    )
