"""Files and messages that come into a table with constraints that only ctsql keeps.

They come in by a transaction, as an INSERT into such a table does. Its commit of the table says how
far the writer is, so what it brings is in once, whatever is killed: the rows that are kept, those
that are set aside, and the counts, all or nothing of it.
"""

from pyspark.sql import DataFrame

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.catalog.spans import Span
from ctsql.runtime.engine import Engine
from ctsql.runtime.log.write_handle import NO_UPPER
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.spark.inserts import NotAnAppend
from ctsql.runtime.statements.dml import TRIES_MAX
from ctsql.runtime.statements.transaction import OpenTransaction
from ctsql.runtime.warehouse.loaded_files import insert_rows
from ctsql.runtime.warehouse.multi_table_commit import WriterProgress


def append_kept(
    engine: Engine, item: Item, rows: DataFrame, progress: WriterProgress, span: Span
) -> None:
    """Put rows into a table; see :data:`ctsql.runtime.warehouse.multi_table_commit.AppendKept`.

    Where the table's store has no locks another process may be at the same rows: how far their
    writer is is looked at anew in each try.

    Raises:
        CONSTRAINT_VIOLATED: a row breaks a constraint that refuses; nothing comes in.
        TRANSACTION_CONFLICT: another engine was first, again and again.
    """
    for _ in range(TRIES_MAX):
        try:
            with engine.leaving_intents():
                _append(engine, item, rows, progress, span)
        except CtsqlError as problem:
            if problem.condition != "TRANSACTION_CONFLICT":
                raise
        else:
            return
    detail = f"{TRIES_MAX} times another writer was first."
    raise error("TRANSACTION_CONFLICT", name=str(item.name), detail=detail)


def _append(
    engine: Engine, item: Item, rows: DataFrame, progress: WriterProgress, span: Span
) -> None:
    at = engine.mint()
    # After the mint: else the rows could be compared with themselves, put in by another process.
    upper = engine.relations.table(item).application_version(progress.app)
    if (upper or NO_UPPER) >= progress.upper:
        return
    with OpenTransaction(engine, at, alone=item, progress=progress) as own:
        appends = own.appends(item)
        assert appends is not None  # it is the transaction's first statement
        try:
            with translate_spark_errors(None, span):
                appends.stage(rows)
        except NotAnAppend:  # a copy of the table takes them
            insert_rows(own.location(item), rows, span, engine.session.sql)
