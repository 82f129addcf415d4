"""What a plan reads, by object."""

from dataclasses import dataclass

from ctsql.planner.nodes import (
    ChangesInput,
    DeletesInput,
    External,
    InsertsInput,
    Node,
    NormalReference,
    Query,
    SelfReference,
    descend,
)


@dataclass(frozen=True, slots=True)
class Reads:
    """The ids of objects, each once, in the order of the plan; other relations are their parts.

    Attributes:
        inserts: those whose inserted rows are read. contents: those that are read whole. outputs:
            those of the task itself. is_all: whether nothing else is read, not even the clock.
    """

    inserts: tuple[str, ...]
    contents: tuple[str, ...]
    outputs: tuple[str, ...]
    is_all: bool


def reads_of(node: Node) -> Reads:
    """What a plan reads; of a plain view, what its query reads."""
    nodes = list(descend(node))

    def ids(kind: type[InsertsInput | NormalReference | SelfReference]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n.object_id for n in nodes if isinstance(n, kind)))

    has_more = any(
        isinstance(n, ChangesInput | DeletesInput | External)
        or (isinstance(n, Query) and bool(n.sql.clocks))
        for n in nodes
    )
    return Reads(ids(InsertsInput), ids(NormalReference), ids(SelfReference), not has_more)
