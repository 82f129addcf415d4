"""The objects that a plan reads, and the times at which a task is due."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ctsql.planner import nodes as lp
from ctsql.planner.updates import Row, RowUpdate, times_extract, times_reduce


def due_times(
    node: lp.Node, changes: Callable[[lp.InputNode], Iterable[RowUpdate[Row]]]
) -> list[tuple[int, int]]:
    """Evaluate a node of due times to (t, d); ``changes`` is the collection of an input node."""
    match node:
        case lp.TimesReduce(times=below):
            return times_reduce(due_times(below, changes))
        case lp.TimesExtract():
            return times_extract(u for n in watched_inputs(node) for u in changes(n))
    raise TypeError(f"{type(node).__name__} gives no times")


def watched_inputs(node: lp.Node) -> Iterator[lp.InputNode]:
    """The inputs below a node."""
    return (n for n in lp.descend(node) if isinstance(n, lp.InputNode))


def snapshot_inputs(plan: lp.TaskWrite) -> list[str]:
    """The ids of the inputs whose whole contents the first run reads."""
    inputs = (n for n in plan.inputs if isinstance(n, lp.InsertsInput) and n.with_snapshot)
    return list(dict.fromkeys(n.object_id for n in inputs))


@dataclass(frozen=True, slots=True)
class Reads:
    """The ids of objects, each once, in the order of the plan; other relations are their parts."""

    inserts: tuple[str, ...]  # those whose inserted rows are read
    contents: tuple[str, ...]  # those that are read whole
    outputs: tuple[str, ...]  # those of the task itself
    is_all: bool  # whether nothing else is read, not even the clock


def reads_of(node: lp.Node) -> Reads:
    """The objects that a plan reads; a plain view counts as what its query reads."""
    nodes = list(lp.descend(node))

    def ids(kind: type[lp.InsertsInput | lp.NormalReference | lp.SelfReference]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n.object_id for n in nodes if isinstance(n, kind)))

    has_more = any(
        isinstance(n, lp.ChangesInput | lp.DeletesInput | lp.External)
        or (isinstance(n, lp.Query) and bool(n.sql.clocks))
        for n in nodes
    )
    return Reads(ids(lp.InsertsInput), ids(lp.NormalReference), ids(lp.SelfReference), not has_more)
