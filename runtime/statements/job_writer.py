"""Rows that a job of the user's own puts into a table, in one commit with how far the job is.

The write handle (:mod:`ctsql.runtime.log.write_handle`) of a table that others write as well: the
job's name makes the application id, so each job has an upper of its own. Its Ts count what the job
counts; the commit gets its T of the warehouse as any commit of a table does.

Where the table has constraints that only ctsql keeps, the rows are looked at when they are to be
committed, in whatever process they were staged: the commit is that of a transaction, on the version
that they were compared with, and rows that are set aside are in with it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, was_dropped
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.schemas import Column
from ctsql.planner.lowering.store_assignment import as_stored, may_store
from ctsql.planner.lowering.type_names import type_name
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.batches import own_files
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.log.table_metadata import CURRENT_DEFAULT, keeps_any
from ctsql.runtime.log.uppers import commits_to
from ctsql.runtime.log.write_handle import (
    Appended,
    Batch,
    Committed,
    Disturbed,
    Output,
    Unwritten,
    UpperMismatch,
    disturbance_error,
)
from ctsql.runtime.rows.given_rows import rows_for
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.dml import TRIES_MAX
from ctsql.runtime.statements.transaction import OpenTransaction
from ctsql.runtime.warehouse.multi_table_commit import WriterProgress, alone, is_being_changed
from ctsql.runtime.warehouse.table_checks import check_table_to_write

_FILLED_BY_DELTA = (CURRENT_DEFAULT, "delta.generationExpression", "delta.identity.start")


class JobWriter:
    """The write handle of one job on one table."""

    def __init__(self, item: Item, job: str) -> None:
        self.item = item
        self.job = job
        self._output: Output | None = None

    @property
    def upper(self) -> int:
        """The cached upper."""
        return 0 if self._output is None else self._output.upper

    def output(self, engine: Engine) -> Output:
        """The write handle, with nothing decided that is not in.

        Raises UNKNOWN_RELATION if the table was dropped.
        """
        item = engine.refresh_catalog().items.get(self.item.id)
        if item is None:
            raise was_dropped(self.item.name, "since the writer was made")
        self.item = item
        check_table_to_write(engine.relations, item, engine.mint)
        table = engine.relations.table(item)
        if keeps_any(table.configuration()) and is_being_changed(engine.timeline, item):
            engine.mint()  # completes what a killed writer has decided, which moves the upper
        if self._output is None or self._output.table is not table:
            self._output = Output(table, f"ctsql:job:{self.job}", shared=True)
        return self._output

    def stage(self, engine: Engine, rows: Mapping[int, Any], lower: int, upper: int) -> Batch:
        """Write rows, by T, into files that nobody sees; a batch of ``[lower, upper)``."""
        batch = self.output(engine).batch(lower, upper)
        with discard_on_error([batch]), translate_spark_errors():
            for time, some in sorted(rows.items()):
                batch.at(time).stage(self._fit(engine, some))
        return batch

    def write(self, engine: Engine, write: "Write", own: Sequence[Batch]) -> int:
        """Commit; returns the upper.

        Args:
            own: batches that nobody else has a text of; deleted where they do not come in.

        Raises:
            UPPER_MISMATCH: another writer was first, or this one would leave a gap.
            CONSTRAINT_VIOLATED: a row breaks a constraint that refuses; texts stay as they are.
        """
        output = self.output(engine)
        with (
            discard_on_error(own),
            alone(engine.timeline, self.item, engine.mint, engine.catalog_store.load),
            engine.leaving_intents(),
        ):
            output = self.output(engine)  # whose constraints nobody changes now
            is_kept = keeps_any(engine.relations.table(self.item).configuration())
            outcome = self._write_kept(engine, write) if is_kept else write.commit(output)
        if isinstance(outcome, Committed):
            faults.point("source_committed")
        if isinstance(outcome, UpperMismatch):
            raise self.mismatch(outcome.current, write.lower)
        if isinstance(outcome, Disturbed):
            raise disturbance_error(f"{self.item.name}: rows that are only added")
        return output.fetch_recent_upper()

    def _write_kept(self, engine: Engine, write: "Write") -> Appended:
        """Commit what a table takes that has constraints which ctsql keeps."""
        for _ in range(TRIES_MAX):
            output = self.output(engine)
            output.check(write.batches, write.lower, write.upper)
            current = output.fetch_recent_upper()
            if not write.is_due(current):
                outcomes = [output.drop(batch) for batch in write.batches]
                if outcomes and all(isinstance(one, Committed) for one in outcomes):
                    return outcomes[-1]
                is_in = write.cuts and current >= write.upper
                return Unwritten(current) if is_in else UpperMismatch(current, write.lower)
            write.truncate(current)
            if not any(part.inserts for batch in write.batches for part in batch.text.parts):
                return write.commit(output)
            version = self._commit_kept(engine, output, write, current)
            if version is not None:
                return Committed(version)
            engine.mint()
        detail = f"{TRIES_MAX} times another writer was first."
        raise error("TRANSACTION_CONFLICT", name=str(self.item.name), detail=detail)

    def _commit_kept(
        self, engine: Engine, output: Output, write: "Write", expected: int
    ) -> int | None:
        """Commit batches as a transaction; returns the version, None if another commit was first.

        The batches are used up if it is in; else their files are there as before.
        """
        files = [f for b in write.batches for p in b.text.parts for f in p.inserts]
        ids = [b.text.batch_id for b in write.batches if b.travelled]
        for batch in write.batches:
            batch.check_files()
        metadata = {"batches": ids} if ids else {}
        progress = WriterProgress(
            app=output.app,
            expected=expected,
            upper=write.upper,
            metadata=metadata,
            lent_files=frozenset(own_files(p for b in write.batches for p in b.text.parts)),
        )
        before = output.table.version()
        at = engine.mint()
        if output.fetch_recent_upper() != expected:
            return None  # what the rows would be compared with may have them already
        own = OpenTransaction(engine, at, alone=self.item, progress=progress)
        try:
            with own:
                appends = own.appends(self.item)
                assert appends is not None  # it is the transaction's first statement
                appends.take(files)
        except BaseException as problem:
            if own.may_be_in:  # so may be its files
                for batch in write.batches:
                    batch.release()
            elif isinstance(problem, CtsqlError) and problem.condition == "TRANSACTION_CONFLICT":
                return None
            raise
        table = engine.relations.table(self.item)
        (commit,) = commits_to(table, output.app, write.upper, after=before)
        used = {file.path for file in commit.adds}
        for batch in write.batches:
            # Where rows were left out, others are in place of its files.
            is_used = all(f.path in used for part in batch.text.parts for f in part.inserts)
            batch.release() if is_used else batch.discard()
        return commit.version

    def mismatch(self, current: int, expected: int) -> Exception:
        """The error of a write at another upper."""
        return error(
            "UPPER_MISMATCH",
            job=self.job,
            table=str(self.item.name),
            current=current,
            expected=expected,
        )

    def _fit(self, engine: Engine, rows: Any) -> DataFrame:
        """Rows as the table stores them, as by INSERT; columns that they do not have are NULL.

        Raises:
            TYPE_MISMATCH: a column is of a type that does not go into the table's.
        """
        columns = engine.relations.columns_now(self.item)
        # As the log has it: what Spark reads says nothing of what Delta computes.
        schema = T.StructType.fromJson(json.loads(engine.relations.table(self.item).schema_text()))
        fields = {fold(f.name): f for f in schema.fields}
        frame = rows_for(engine.session, rows, columns, str(self.item.name))
        types = {f.name: f.dataType for f in frame.schema.fields}
        values: list[SparkColumn] = []
        for column in columns:
            if column.name in types:
                self._check_type(types[column.name], fields[fold(column.name)].dataType, column)
                values.append(as_stored(F.col(backtick(column.name)), column))
            elif not set(_FILLED_BY_DELTA) & set(fields[fold(column.name)].metadata):
                values.append(as_stored(F.lit(None), column))
        return frame.select(*values)

    def _check_type(self, row_type: T.DataType, column_type: T.DataType, column: Column) -> None:
        """Refuse what has no value in the column: structs go by place, so names must agree."""
        text = type_name(row_type)
        if not may_store(text, column.type) or _field_names(row_type) != _field_names(column_type):
            message = f'rows with {text} in "{column.name}" do not go into {column.type}'
            raise error("TYPE_MISMATCH", message=message)


def _field_names(kind: T.DataType) -> Sequence[Any]:
    """The names of the fields of structs within a type, nested as these are; None has none."""
    match kind:
        case T.StructType():
            return [(fold(f.name), _field_names(f.dataType)) for f in kind.fields]
        case T.ArrayType():
            return _field_names(kind.elementType)
        case T.MapType():
            return [_field_names(kind.keyType), _field_names(kind.valueType)]
        case _:
            return []


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a job.

    Attributes:
        lower, upper: of its batches. cuts: whether what is in already is left out; else the lower
            must be the upper there is.
    """

    batches: Sequence[Batch]
    lower: int
    upper: int
    cuts: bool

    def is_due(self, current: int) -> bool:
        """Whether there is something to commit at an upper, and no gap before it."""
        return self.lower <= current < self.upper if self.cuts else current == self.lower

    def truncate(self, current: int) -> None:
        """Leave out of its batches what is in at an upper, if it cuts."""
        for batch in self.batches if self.cuts else ():
            batch.truncate(current)

    def commit(self, output: Output) -> Appended:
        """Commit it as it is."""
        if self.cuts:
            return output.append(self.batches, lower=self.lower, upper=self.upper)
        return output.compare_and_append(self.batches, expected=self.lower, new=self.upper)
