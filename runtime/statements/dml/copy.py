"""COPY: from files into tables, and from queries into files."""

from pyspark.sql import DataFrame

from ctsql.catalog import schemas
from ctsql.catalog.items import Item
from ctsql.catalog.schemas import Column, check_unique
from ctsql.planner.syntax.ast import CopyFrom, CopyTo
from ctsql.runtime.engine import Engine
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.statements.dml.dml import append_rows, target_table
from ctsql.runtime.statements.dml.transaction import OpenTransaction
from ctsql.runtime.warehouse.stores.copy_files import rows_to_load, write_file
from ctsql.runtime.warehouse.stores.location import check_outside


def copy_from(
    engine: Engine, statement: CopyFrom, search_schema: str, *, within: OpenTransaction | None
) -> int:
    """COPY t FROM: append a file's rows in one commit; returns their number.

    Raises: FILE_NOT_FOUND, FILE_FORMAT_UNKNOWN. UNKNOWN_COLUMN, COLUMN_COUNT_MISMATCH: the file has
    other columns. DATA_ERROR: a value is not of its column's type.
    """
    item = target_table(engine, statement.target, search_schema)
    file = statement.file
    with translate_spark_errors(None, file.span):
        rows = rows_to_load(
            engine.gateway,
            file,
            _columns_to_fill(engine, statement, item),
            statement.target.span.text,
            may_have_more=bool(statement.columns),
        )
    return append_rows(engine, item, rows, within=within, span=file.span)


def _columns_to_fill(engine: Engine, statement: CopyFrom, item: Item) -> tuple[Column, ...]:
    there = engine.relations.columns_now(item)
    heading = f'"{item.name}" has the columns'
    columns = [schemas.get(there, c.name, span=c.span, heading=heading) for c in statement.columns]
    return check_unique(columns, [c.span for c in statement.columns]) if columns else there


def copy_to(engine: Engine, rows: DataFrame, statement: CopyTo) -> int:
    """COPY ... TO: write rows into a new file or folder; returns their number.

    Raises:
        NOT_SUPPORTED: it is a folder of ctsql or Delta.
        FILE_EXISTS: it exists, and OVERWRITE is not given, or it is no file of rows.
    """
    with translate_spark_errors(None, statement.file.span):
        file = statement.file
        check_outside(
            engine.gateway.qualify(file.path), engine.location, "COPY TO", file.span, is_folder=True
        )
        return write_file(engine.gateway, rows, file, overwrite=statement.overwrite)
