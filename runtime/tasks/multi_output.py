"""One attempt to write all outputs of a task at one T.

    stage b, stage c, stage a  -->  commit b, commit c  -->  commit a
    (all before any commit)         (if they have rows)      (the first output: it leads)

Each output is a table with its own commits. The first output *leads*: it is committed last, and the
task is at T once its upper is past T. A quarantine is one of the other outputs.

[all-at-T] at every T that the task has reached each output holds what the body proposed there. At
    later Ts no output is read, though some may already hold rows.
[staged-before-commit] nothing is committed before everything is staged: a body that cannot be
    computed changes no output.
[part-is-there] an output whose upper is past T already holds its part of T. The body runs with what
    it held before T (kept by :mod:`ctsql.runtime.maintenance.consumers`), and its proposal for this
    output is dropped. The outcome at T is definite, so parts of two runs fit together.
[lead-passes-T] an output without proposed rows is not committed. The leading output is committed
    without rows if another one has rows: that moves the task past T.

After a crash between the commits T runs again and writes the missing parts. If another process
commits a part first, that part counts; if it commits the last one, our staged files are deleted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctsql.catalog.dependencies import written_by
from ctsql.catalog.items import Item
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.write_handle import Appended, Committed, Output, OutputBatch, UpperMoved
from ctsql.runtime.warehouse.advance_context import AdvanceContext
from ctsql.runtime.warehouse.warehouse import Warehouse


@dataclass(slots=True)
class PendingOutput:
    """An output that does not hold T yet."""

    object_id: str
    output: Output
    batch: OutputBatch
    has_rows: bool = False  # rows or counts are to be committed
    metadata: Mapping[str, Any] = field(default_factory=dict)  # for its own commit


@dataclass(slots=True)
class OutputBatches:
    """The batches for the outputs of one task at one T.

    Attributes:
        lead, others: the outputs that do not hold T, the leading one and other ones.
        read: each output by its id, with the version that the body reads; None before the first.
        upper: after T.
    """

    lead: PendingOutput
    others: list[PendingOutput]
    read: Mapping[str, tuple[Item, int | None]]
    upper: int
    context: AdvanceContext

    @staticmethod
    def open(
        warehouse: Warehouse, task: Item, time: int, context: AdvanceContext
    ) -> "OutputBatches | None":
        """Open the outputs for an unwritten T; None if the T must be checked again."""
        lead, *others = written_by(warehouse.catalog, task)
        first = _open(warehouse, lead)
        if first is None:
            return None
        read: dict[str, tuple[Item, int | None]] = {lead.id: (lead, first.batch.version_read)}
        parts: list[PendingOutput] = []
        for item in others:
            if warehouse.relations.output(item).fetch_recent_upper() > time:
                version = warehouse.versions.version_at(item, time - 1)
                if version is not None:
                    version = warehouse.versions.settled(warehouse.relations.table(item), version)
                read[item.id] = (item, version)
                continue
            part = _open(warehouse, item)
            if part is None:
                return None
            read[item.id] = (item, part.batch.version_read)
            parts.append(part)
        return OutputBatches(first, parts, read, time + 1, context)

    @property
    def waiting(self) -> Iterator[PendingOutput]:
        """The outputs that do not hold T, the leading one last."""
        yield from self.others
        yield self.lead

    @property
    def has_rows(self) -> bool:
        """Whether there is anything to write at T, or a part of T is already committed."""
        return len(self.others) + 1 < len(self.read) or any(p.has_rows for p in self.waiting)

    def discard(self) -> None:
        """Delete all staged files, except those that are committed or may be."""
        for part in self.waiting:
            part.batch.discard()

    def commit(self, metadata: Mapping[str, Any]) -> Appended:
        """Commit all, the leading output last; returns the outcome of that commit.

        If the result is UpperMismatch or Disturbed of another output, T must be computed again;
        parts committed so far remain.

        Raises:
            COMMIT_UNKNOWN: a commit failed and the log cannot be read to find out.
        """
        parts = [*(part for part in self.others if part.has_rows), self.lead]
        for part in parts:
            if part is self.lead and len(self.read) > 1:
                faults.point("outputs_halfway")
            batch, metadata_of_part = part.batch, {**metadata, **part.metadata}
            outcome = part.output.compare_and_append(
                [batch], expected=batch.lower, new=self.upper, metadata=metadata_of_part
            )
            self.context.committed(part.object_id, outcome, self.upper)
            if not isinstance(outcome, Committed) and part.output.upper < self.upper:
                break
            # This part of T is committed, by us or by another process [part-is-there].
        else:
            return outcome
        self.discard()
        return outcome


def _open(warehouse: Warehouse, item: Item) -> PendingOutput | None:
    output = warehouse.relations.output(item)
    batch = output.open(output.upper)
    return None if isinstance(batch, UpperMoved) else PendingOutput(item.id, output, batch)
