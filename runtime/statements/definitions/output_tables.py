"""Creates the tables of outputs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from zlib import crc32

from ctsql.catalog.items import Item
from ctsql.catalog.names import table_at
from ctsql.runtime.delta.table import KEEPS_LOG
from ctsql.runtime.delta.table_rows import ENABLE_VECTORS
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.warehouse.replaced_views import table_columns
from ctsql.runtime.warehouse.table_checks import identify

_CHECKPOINT_INTERVALS = (101, 107, 109, 113, 127, 131)
"""In commits. Primes, so that two of them seldom meet; inputs have 103, the timeline 97."""


def make_table(engine: Engine, item: Item, *, has_vectors: bool = True) -> Item:
    """Create the table of a new output in its folder; returns the stored item.

    Without deletion vectors there is no change feed, which would list rows that only move.
    """
    properties = {
        **KEEPS_LOG,
        "delta.feature.domainMetadata": "supported",
        "delta.checkpointInterval": str(checkpoint_interval(item.id)),
    }
    if not has_vectors:
        properties |= {ENABLE_VECTORS: "false", "delta.enableChangeDataFeed": "false"}
    text = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    columns = table_columns(item)
    assert item.location is not None  # an output has a table
    with translate_spark_errors():
        engine.session.sql(
            f"CREATE TABLE {table_at(item.location)} ({columns}) USING delta TBLPROPERTIES ({text})"
        )
    faults.point("catalog_table_made")
    return identify(engine.relations, item)


def checkpoint_interval(object_id: str) -> int:
    """The number of commits between Delta's checkpoints of an output.

    A tick commits to the timeline and to each output; with equal intervals all their checkpoints
    would fall on one tick.

    >>> checkpoint_interval("a"), checkpoint_interval("b")
    (113, 131)
    """
    return _CHECKPOINT_INTERVALS[crc32(object_id.encode()) % len(_CHECKPOINT_INTERVALS)]


@contextmanager
def undo_on_failure(engine: Engine, items: Sequence[Item]) -> Iterator[None]:
    """Delete the folders of new objects if their creation fails."""
    try:
        yield
    except BaseException:
        engine.refresh_catalog()
        for item in items:
            if item.location is None or not item.managed:
                continue
            if item.id not in engine.catalog.items:
                engine.gateway.forget(item.location)
                engine.gateway.delete_tree(item.location)
        raise
