"""The rows at fault, where a body fails at a T: ON ERROR = 'quarantine'.

Only for bodies that take the inserted rows one by one (:func:`ctsql.planner.row_local
.why_not_apart`): such a body fails over some rows exactly if it fails over one of them alone. So
the rows at fault are found by running it over parts of the T's rows, and what the others make of
the T does not depend on how they were found:

    all rows fail --> halves --> ... --> single rows, each with its own error
                                         into the quarantine; the others through, in the same T

Each run over a part stages the rows as the real one does, so what fails then fails here, and
deletes what it staged. With k faults among n rows there are about 2 k log2(n) runs.

[definite-fault] the outcome at T is definite: which rows are at fault depends on nothing but these
    rows. Only whether they are looked for at all is bounded, by ``RUNS_MAX`` runs and by the rows
    that the driver may hold; beyond that the task stops at the T, as it would without the option.
[only-data-errors] only DATA_ERROR is a row's fault. Any other failure, of a constraint ON VIOLATION
    FAIL too, stops the task.

On a crash nothing is in: T is run again and looked through again. What was staged for a part and
not deleted is a file that nobody refers to.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.names import backtick_all
from ctsql.planner.lowering import AS_JSON
from ctsql.runtime.delta.change_feed import InputChange
from ctsql.runtime.rows.collect import DRIVER_ROWS_MAX, collect_bounded
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.tasks.tallies import QUARANTINE_COLUMNS

RUNS_MAX = 500
"""Over parts of one T's rows."""
PLACE_TEXT_MAX = 200
_Fault = TypeVar("_Fault")


def find_faulty(
    count: int,
    whole: _Fault,
    fault_of: Callable[[int, int], _Fault | None],
    runs_max: int = RUNS_MAX,
    *,
    has_others: bool = False,
) -> tuple[dict[int, _Fault], int] | None:
    """The rows at fault among ``count`` that fail together, each with its fault. Pure.

    Args:
        whole: the fault of all of them. fault_of: of the rows from a number up to another one
            (exclusive); None if they do not fail.
        has_others: whether what fails may be something else than these rows; then it is tried
            without any of them.

    Returns:
        the faults by the rows' numbers, and the number of runs; no faults if none of the rows is
        at fault; None if more runs would be needed.
    """
    faults: dict[int, _Fault] = {}
    runs = int(has_others and count > 0)
    if not count or (runs and fault_of(0, 0) is not None):
        return faults, runs
    failing = [(0, count, whole)]
    while failing:
        start, stop, fault = failing.pop()
        if stop - start == 1:
            faults[start] = fault
            continue
        if runs + 2 > runs_max:
            return None
        middle = (start + stop) // 2
        first = fault_of(start, middle)
        runs += 1
        if first is None:
            failing.append((middle, stop, fault))  # it is in the other half
            continue
        failing.append((start, middle, first))
        second = fault_of(middle, stop)
        runs += 1
        if second is not None:
            failing.append((middle, stop, second))
    return faults, runs


class Overtaken(Exception):
    """A rival has written the T that is looked through."""


@dataclass(frozen=True, slots=True)
class TriedRows:
    """Some of the rows that the one input of a task inserted at a T.

    Attributes:
        name: the id by which the body reads the input. relation: what the input is called.
        faults: of rows that are left out, by their numbers in ``all_rows``. runs: made to find
            them.
    """

    name: str
    relation: str
    all_rows: LocalRows
    numbers: Sequence[int]
    faults: Mapping[int, CtsqlError]
    runs: int = 0

    def narrow_changes(self, changes: Mapping[str, InputChange]) -> dict[str, InputChange]:
        """The changes of a run with these rows alone."""
        some = InputChange(changes[self.name].nothing, few=self.all_rows.take(self.numbers))
        return {**changes, self.name: some}

    def to_metadata(self) -> dict[str, object]:
        """What the commit's metadata says of rows that were left out."""
        return {"at_fault": {"rows": len(self.faults), "runs": self.runs}} if self.faults else {}

    def from_to(self, start: int, stop: int) -> "TriedRows":
        """Some of its rows, to be tried."""
        return replace(self, numbers=self.numbers[start:stop])

    def without(self, faults: Mapping[int, CtsqlError], runs: int) -> "TriedRows":
        """The rows that are not at fault."""
        good = [number for number in self.numbers if number not in faults]
        return replace(self, numbers=good, faults=faults, runs=runs)

    def quarantine_rows(self, at: int) -> DataFrame | None:
        """The rows at fault as the quarantine holds them; None for none."""
        if not self.faults:
            return None
        texts = self._as_json(sorted(self.faults))
        rows = [
            (at, self.relation, None, fault.message, _place(fault), text)
            for (_, fault), text in zip(sorted(self.faults.items()), texts, strict=True)
        ]
        names = [name for name, _ in QUARANTINE_COLUMNS]
        schema = T.StructType(
            [
                T.StructField(name, T.LongType() if kind == "bigint" else T.StringType())
                for name, kind in QUARANTINE_COLUMNS
            ]
        )
        table = pa.table(
            [
                pa.array(values, pa.int64() if kind == "bigint" else pa.string())
                for values, (_, kind) in zip(
                    zip(*rows, strict=True), QUARANTINE_COLUMNS, strict=True
                )
            ],
            names=names,
        )
        return LocalRows(self.all_rows.session, schema, table).plain_frame

    def _as_json(self, numbers: Sequence[int]) -> list[str]:
        rows = self.all_rows.take(numbers).plain_frame
        text = F.to_json(F.struct(*backtick_all(rows.columns)), AS_JSON)
        return [row[0] for row in rows.select(text).collect()]


def part_of(
    changes: Mapping[str, InputChange], relations: Mapping[str, str]
) -> TriedRows | Declined:
    """All rows that the input inserted; declined where the driver may not hold them.

    Args:
        relations: what each input is called, by the id by which the body reads it; one.
    """
    ((name, relation),) = relations.items()
    change = changes[name]
    rows = change.few
    if rows is None:
        local_rows = collect_bounded(change.inserts)
        if isinstance(local_rows, Declined):
            return Declined(
                f"{local_rows.reason}; {DRIVER_ROWS_MAX} rows are looked through at most"
            )
        rows = LocalRows.of(local_rows)
    return TriedRows(name, relation, rows, range(rows.arrow.num_rows), {})


def _place(fault: CtsqlError) -> str | None:
    """The piece of the definition that failed, as typed."""
    return None if fault.span is None else fault.span.text[:PLACE_TEXT_MAX]
