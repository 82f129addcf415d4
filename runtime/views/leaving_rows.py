"""Views to which time does nothing but let rows go: these are looked for in the view itself.

Where no table has changed, the rows that leave are among those that are stored, so no table is
read. The first contents are stored in the order in which rows leave: files, row groups and pages
hold rows of about the same time, so a look at those that turn in a span skips the others by their
statistics, however large the view is and however its tables are laid out
(docs/decisions/0105-rows-that-leave.md).
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.planner.ivm import Window
from ctsql.runtime.delta.key_lookup import group_by_file
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.row_set import SparkRows
from ctsql.runtime.views.refresh_context import RefreshContext


def stage_leaving(context: RefreshContext, window: Window, before: int, at: int) -> bool:
    """Stage the deletion of the stored rows that leave in (before, at]; whether there are any."""
    table, version = context.warehouse.relations.table(context.item), context.batch.version_read
    rows = table.locate_rows(version).where(window.may_turn(before, at))
    gone = rows.where(f"NOT ({window.passes(at)})").select(FILE_COLUMN, ROW_COLUMN)
    few = SparkRows(gone).collect()
    if isinstance(few, Declined):
        context.staging.delete_rows(_by_file(gone))
    elif few.arrow.num_rows:
        files, numbers = (few.arrow.column(c).to_pylist() for c in (FILE_COLUMN, ROW_COLUMN))
        places = sorted(zip(files, numbers, strict=True))
        context.staging.delete_rows(group_by_file(places).items())
    else:
        return False
    return True


def _by_file(gone: DataFrame) -> Iterator[tuple[str, list[int]]]:
    grouped = gone.groupBy(FILE_COLUMN).agg(F.collect_list(ROW_COLUMN).alias("rows"))
    for row in grouped.toLocalIterator():
        yield row[FILE_COLUMN], row["rows"]


def next_leaving(rows: DataFrame, window: Window, at: int, until: int | None) -> int | None:
    """The first T after one at which a row leaves, of those that are in at it.

    Args:
        rows: the view's. until: what leaves later need not be found.
    """
    held = rows.where(window.passes(at))
    if until is not None:
        held = held.where(window.may_turn(at, until))
    (found,) = held.select(F.expr(window.next_turn(at)).alias("due")).collect()
    due: int | None = found["due"]
    return due


def in_order(rows: DataFrame, window: Window) -> DataFrame:
    """The rows in the order in which they leave."""
    return rows.orderBy(F.expr(window.order))
