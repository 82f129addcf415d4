"""What stands behind a connection, for tests that look at what no statement shows."""

from ctsql.api import Connection
from ctsql.catalog.items import Item
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine
from tests.scenarios.runner import assert_rows


def engine_of(con: Connection) -> Engine:
    """The connection's engine."""
    con.start()
    assert con._engine is not None  # start() made it
    return con._engine


def item_of(con: Connection, name: str) -> Item:
    """The object of a name, as the catalog has it now."""
    return next(i for i in engine_of(con).refresh_catalog() if i.name.name == name)


def table_of(con: Connection, name: str) -> DeltaTable:
    """An object's table, as Delta knows it."""
    return engine_of(con).warehouse.relations.table(item_of(con, name))


def write_checkpoint(table: DeltaTable) -> int:
    """Have Delta write a checkpoint of the newest version; returns that."""
    state = table.snapshot_in_jvm(table.version())
    table.handle.log.checkpoint(state, table.gateway.none)
    return int(state.version())


def check_rows(con: Connection, query: str, *expected: tuple[object, ...]) -> None:
    """A query gives these rows, in any order."""
    assert_rows(con.execute(query).fetchall(), expected, query)
