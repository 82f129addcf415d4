"""Rows that a job of the user's own puts into a table, in one commit with how far the job is.

The write handle (:mod:`ctsql.runtime.log.write_handle`) of a table that others write as well: the
job's name makes the application id, so each job has an upper of its own. Its Ts count what the job
counts; the commit gets its T of the warehouse as any commit of a table does.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F, types as T

from ctsql.catalog.errors import error, not_supported
from ctsql.catalog.items import Item, was_dropped
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.schemas import Column
from ctsql.planner.lowering.store_assignment import as_stored, may_store
from ctsql.planner.lowering.type_names import type_name
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.log.table_metadata import CURRENT_DEFAULT
from ctsql.runtime.log.write_handle import (
    Appended,
    Batch,
    Committed,
    Disturbed,
    Output,
    UpperMismatch,
    disturbance_error,
)
from ctsql.runtime.rows.given_rows import rows_for
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.stored_constraints import keeps_any
from ctsql.runtime.warehouse.multi_table_commit import alone
from ctsql.runtime.warehouse.table_checks import check_tables

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
        """The write handle.

        Raises:
            UNKNOWN_RELATION: the table was dropped.
            NOT_SUPPORTED: it has constraints that only ctsql's statements keep.
        """
        item = engine.refresh_catalog().items.get(self.item.id)
        if item is None:
            raise was_dropped(self.item.name, "since the writer was made")
        self.item = item
        check_tables(engine.relations, [item])
        table = engine.relations.table(item)
        if keeps_any(table.configuration()):
            what = f'a writer of "{item.name}", which has UNIQUE, REFERENCES or ON VIOLATION'
            why = (
                "A job's batches are committed as they are staged, and no row of them is looked at."
            )
            hint = "Let the job append by con.append(), or write a table with a task on it."
            raise not_supported(None, what, why=why, hint=hint)
        if self._output is None or self._output.table is not table:
            self._output = Output(table, f"ctsql:job:{self.job}", shared=True)
        return self._output

    def stage(self, engine: Engine, rows: Mapping[int, Any], lower: int, upper: int) -> Batch:
        """Write rows, by T, into files that nobody sees; a batch of ``[lower, upper)``."""
        batch = self.output(engine).batch(lower, upper)
        with discard_on_error([batch]), translate_spark_errors():
            for time, some in sorted(rows.items()):
                batch.at(time).stage(self._fitted(engine, some))
        return batch

    def write(
        self,
        engine: Engine,
        write: Callable[[Output], Appended],
        expected: int,
        own: Sequence[Batch],
    ) -> int:
        """Commit by ``write``; returns the upper.

        Args:
            own: batches that nobody else has a text of; deleted where they do not come in.

        Raises:
            UPPER_MISMATCH: another writer was first, or this one would leave a gap.
        """
        output = self.output(engine)
        with (
            discard_on_error(own),
            alone(engine.timeline, self.item, engine.mint),
            engine.leaving_intents(),
        ):
            self.output(engine)  # whose constraints nobody changes now
            done = write(output)
        if isinstance(done, Committed):
            faults.point("source_committed")
        if isinstance(done, UpperMismatch):
            raise self.mismatch(done.current, expected)
        if isinstance(done, Disturbed):
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

    def _fitted(self, engine: Engine, rows: Any) -> DataFrame:
        """Rows as the table stores them, as by INSERT; columns that they do not have are NULL.

        Raises:
            TYPE_MISMATCH: a column is of a type that does not go into the table's.
        """
        columns = engine.relations.columns_now(self.item)
        # As the log has it: what Spark reads says nothing of what Delta computes.
        written = T.StructType.fromJson(json.loads(engine.relations.table(self.item).schema_text()))
        stored = {fold(f.name): f for f in written.fields}
        frame = rows_for(engine.session, rows, columns, str(self.item.name))
        given = {f.name: f.dataType for f in frame.schema.fields}
        chosen: list[SparkColumn] = []
        for column in columns:
            if column.name in given:
                self._check_type(given[column.name], stored[fold(column.name)].dataType, column)
                chosen.append(as_stored(F.col(backtick(column.name)), column))
            elif not set(_FILLED_BY_DELTA) & set(stored[fold(column.name)].metadata):
                chosen.append(as_stored(F.lit(None), column))
        return frame.select(*chosen)

    def _check_type(self, given: T.DataType, stored: T.DataType, column: Column) -> None:
        """Refuse what has no value in the column: structs go by place, so names must agree."""
        told = type_name(given)
        if not may_store(told, column.type) or _field_names(given) != _field_names(stored):
            message = f'rows with {told} in "{column.name}" do not go into {column.type}'
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
