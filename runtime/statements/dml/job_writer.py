"""Rows that a user's job writes into a table, in one commit with the job's progress.

It uses the write handle (:mod:`ctsql.runtime.log.write_handle`) of a table with other writers: the
job's name is part of the application id, so each job has its own upper. Its Ts are the job's
counts; the commit gets its T of the warehouse like any commit.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog.errors import error
from ctsql.catalog.items import Item, altered_meanwhile, was_dropped
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.schemas import Column
from ctsql.planner.lowering.spark_types import type_name
from ctsql.planner.lowering.store_assignment import as_stored, may_store
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.transaction import OptimisticTransaction
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.log.table_metadata import CURRENT_DEFAULT
from ctsql.runtime.log.write_handle import (
    Committed,
    Disturbed,
    Output,
    OutputBatch,
    UpperMoved,
    disturbance_error,
)
from ctsql.runtime.rows.given_rows import rows_for
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.statements.dml.stored_rules import constraint_rules
from ctsql.runtime.warehouse.table_checks import check_table_to_write
from ctsql.runtime.warehouse.times.multi_table_commit import alone

_FILLED_BY_DELTA = (CURRENT_DEFAULT, "delta.generationExpression", "delta.identity.start")


class JobWriter:
    """The write handle of one job on one table."""

    def __init__(self, item: Item, job: str) -> None:
        self.item = item
        self.job = job
        self._output: Output | None = None
        self._due: Sequence[OutputBatch] = ()  # what the next commit holds

    @property
    def upper(self) -> int:
        """The cached upper."""
        return 0 if self._output is None else self._output.upper

    def output(self, engine: Engine) -> Output:
        """The write handle; raises UNKNOWN_RELATION if the table was dropped."""
        item = engine.refresh_catalog().items.get(self.item.id)
        if item is None:
            raise was_dropped(self.item.name, "since the writer was made")
        self.item = item
        check_table_to_write(engine.relations, item, engine.mint)
        table = engine.relations.table(item)
        if self._output is None or self._output.table is not table:
            begin = partial(self._begin, table)
            # Others write the table too: read its state, not its commits.
            app, now = f"ctsql:job:{self.job}", table.version()
            self._output = Output(table, app, since=now, begin=begin)
        return self._output

    def _begin(self, table: DeltaTable) -> OptimisticTransaction:
        """Begin a commit; raises ALTERED_MEANWHILE if a constraint was added after staging."""
        txn = table.begin()
        constraints = set(constraint_rules(table.metadata_at(txn.version_read)))
        for batch in self._due:
            new = constraints - {*constraint_rules(table.metadata_at(batch.version_read))}
            if new:
                rules = ", ".join(sorted(new))
                detail = f"It has {rules} now, and rows were staged before."
                problem = altered_meanwhile(self.item, detail)
                problem.hint = "Discard the batch, and stage its rows again."
                raise problem
        return txn

    def stage(self, engine: Engine, rows: Mapping[int, Any], lower: int, upper: int) -> OutputBatch:
        """Write rows, by T, into invisible files; a batch of ``[lower, upper)``."""
        batch = self.output(engine).batch(lower, upper)
        with discard_on_error([batch]), translate_spark_errors():
            for time, some in sorted(rows.items()):
                batch.at(time).stage(self._fit(engine, some))
        return batch

    def write(
        self,
        engine: Engine,
        batches: Sequence[OutputBatch],
        own: Sequence[OutputBatch],
        *,
        lower: int,
        upper: int,
        cuts: bool,
    ) -> int:
        """Commit batches of ``[lower, upper)``; returns the upper.

        Args:
            own: batches whose text exists nowhere else; deleted if they are not committed.
            cuts: leave out committed parts; else ``lower`` must be the upper.

        Raises:
            UPPER_MISMATCH: another writer was first, or this one would leave a gap.
            ALTERED_MEANWHILE: the table got a constraint after rows were staged.
        """
        output, self._due = self.output(engine), batches
        with (
            discard_on_error(own),
            alone(engine.timeline, self.item, engine.mint),
            engine.leaving_intents(),
        ):
            if cuts:
                outcome = output.append(batches, lower=lower, upper=upper)
            else:
                outcome = output.compare_and_append(batches, expected=lower, new=upper)
        if isinstance(outcome, Committed):
            faults.point("source_committed")
        if isinstance(outcome, UpperMoved):
            raise self.mismatch(outcome.current, lower)
        if isinstance(outcome, Disturbed):
            raise disturbance_error(f"{self.item.name}: rows that are only added")
        return output.fetch_recent_upper()

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
        """Rows as the table stores them, as by INSERT; missing columns are NULL.

        Raises TYPE_MISMATCH if the table cannot store a column's type.
        """
        columns = engine.relations.columns_now(self.item)
        # From the log: Spark's schema lacks what Delta computes.
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
        """Raise TYPE_MISMATCH; fields of structs are matched by place, so names must agree."""
        text = type_name(row_type)
        if not may_store(text, column.type) or _field_names(row_type) != _field_names(column_type):
            message = f'rows with {text} in "{column.name}" cannot be stored as {column.type}'
            raise error("TYPE_MISMATCH", message=message)


def _field_names(kind: T.DataType) -> Sequence[Any]:
    """The names of fields of structs within a type, nested alike."""
    match kind:
        case T.StructType():
            return [(fold(f.name), _field_names(f.dataType)) for f in kind.fields]
        case T.ArrayType():
            return _field_names(kind.elementType)
        case T.MapType():
            return [_field_names(kind.keyType), _field_names(kind.valueType)]
        case _:
            return []
