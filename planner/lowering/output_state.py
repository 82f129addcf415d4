"""The state of a task's outputs while its body runs, and how a statement sees it.

    C_i = base - victims + inserts

after i statements, for each output: the base is the stored rows as of T - 1, the victims are rows
of it, and the inserts were proposed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import VALUE_
from ctsql.planner.lowering.context import EMPTY, Context
from ctsql.planner.lowering.queries import run_pieces
from ctsql.planner.nodes import Assign, Node, Query, SelfReference


@dataclass(frozen=True, slots=True)
class OutputState:
    """The rows of an output: base, victims and inserts."""

    # the remaining stored rows, with the columns that locate them; None for none
    stored_rows: DataFrame | None
    inserts: DataFrame | None = None  # the remaining proposed rows; None for none
    # the removed stored rows, with the columns that locate them
    victims: DataFrame | None = None

    def contents(self, own: SelfReference, context: Context) -> DataFrame:
        """All rows, without their places."""
        columns = backtick_all(own.columns)
        parts = [f.select(*columns) for f in (self.stored_rows, self.inserts) if f is not None]
        if not parts:
            return context.sources.contents(own.object_id, EMPTY).select(*columns)
        return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


def union_all(*frames: DataFrame | None) -> DataFrame | None:
    """The union of all given rows, as a multiset."""
    union: DataFrame | None = None
    for frame in frames:
        if frame is not None:
            union = frame if union is None else union.unionAll(frame)
    return union


@dataclass(frozen=True, slots=True)
class StatementView:
    """The relations that one statement's texts see: the outputs as the statement found them."""

    output: OutputState  # the output that is written
    context: Context
    ctes: Query | None = None  # the WITH clause in front of all texts
    # every output by its id, where there are several.
    others: Mapping[str, OutputState] = field(default_factory=dict)

    def contents(self, own: SelfReference) -> DataFrame:
        """All rows of an output."""
        return self.others.get(own.object_id, self.output).contents(own, self.context)

    def output_frames(self, relations: Sequence[Node]) -> dict[int, DataFrame]:
        """Rows for the places where an output is read."""
        return {
            i: self.contents(relation)
            for i, relation in enumerate(relations)
            if isinstance(relation, SelfReference)
        }

    def run(
        self, pieces: Sequence[str | Query], rows: dict[str, DataFrame] | None = None
    ) -> DataFrame:
        """A statement of texts of ctsql and the user; ``{name}`` in ctsql's is one of ``rows``."""
        if self.ctes is not None:
            pieces = [self.ctes, " ", *pieces]
        return run_pieces(pieces, self.context, self.output_frames, rows)


def value_pieces(assignments: Sequence[Assign]) -> list[str | Query]:
    """Items of a select list: value n is the column ``VALUE_n``."""
    pieces: list[str | Query] = []
    for i, assign in enumerate(assignments):
        pieces += [", NULL"] if assign.value is None else [", (", assign.value, ")"]
        pieces.append(f" AS {VALUE_}{i}")
    return pieces
