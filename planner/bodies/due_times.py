"""The times at which a task is due: what the plan's node of them gives over the inputs' changes."""

from collections.abc import Callable, Iterable, Iterator

from ctsql.planner import nodes as lp
from ctsql.planner.updates import Row, Update, times_extract, times_reduce

InputNode = lp.InsertsInput | lp.DeletesInput | lp.ChangesInput


def due_times(
    node: lp.Node, changes: Callable[[InputNode], Iterable[Update[Row]]]
) -> list[tuple[int, int]]:
    """Evaluate a node of due times to (t, d); ``changes`` is the collection of an input node."""
    match node:
        case lp.TimesReduce(times=below):
            return times_reduce(due_times(below, changes))
        case lp.TimesExtract():
            return times_extract(u for n in watched_inputs(node) for u in changes(n))
    raise TypeError(f"{type(node).__name__} gives no times")


def watched_inputs(node: lp.Node) -> Iterator[InputNode]:
    """The inputs below a node."""
    return (n for n in lp.descend(node) if isinstance(n, InputNode))


def snapshot_inputs(plan: lp.TaskWrite) -> list[str]:
    """The ids of the inputs whose whole contents the first run reads."""
    inputs = (n for n in plan.inputs if isinstance(n, lp.InsertsInput) and n.with_snapshot)
    return list(dict.fromkeys(n.object_id for n in inputs))
