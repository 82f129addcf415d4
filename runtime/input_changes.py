"""What a task's body sees of an input at one time: its inserts, its deletes, its changes.

All three come from one net change, so that a commit that takes a row out and puts an equal one
back changes nothing. A commit that only adds files needs no netting.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctsql.runtime.sinks.correction import COPIES, column_name, copied, net

DIFF = "diff"


@dataclass(frozen=True)
class InputChange:
    """The change of one input at one time.

    Attributes:
        added: the rows of a change that only inserts; None for another one.
        held: the same, if they are few and the driver has them.
        changed: the net change of another one: rows with ``COPIES``.
        nothing: gives a table like the input without rows.
    """

    nothing: Callable[[], DataFrame]
    added: DataFrame | None = None
    held: DataFrame | None = None
    changed: DataFrame | None = None

    @cached_property
    def _columns(self) -> list[str]:
        frame = self.added if self.added is not None else self.changed
        frame = self.nothing() if frame is None else frame
        return [c for c in frame.columns if c != COPIES]

    @property
    def inserts(self) -> DataFrame:
        """The rows inserted, with multiplicity."""
        if self.changed is not None:
            return copied(self.changed.where(F.col(COPIES) > 0), self._columns)
        return self.nothing() if self.added is None else self.added

    @property
    def deletes(self) -> DataFrame:
        """The rows deleted, with multiplicity."""
        if self.changed is None:
            return self.nothing()
        gone = self.changed.where(F.col(COPIES) < 0).withColumn(COPIES, -F.col(COPIES))
        return copied(gone, self._columns)

    @property
    def changes(self) -> DataFrame:
        """Each changed row once, with ``diff``."""
        names = [column_name(c) for c in self._columns]
        changed = self.changed
        if changed is None:
            rows = self.nothing() if self.added is None else self.added
            changed = net(rows.select(*names, F.lit(1).alias(COPIES)), self._columns)
        return changed.select(*names, F.col(COPIES).cast("bigint").alias(DIFF))
