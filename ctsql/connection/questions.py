"""Questions about a warehouse: names for completion, its newest T, commits, and the status."""

from typing import TYPE_CHECKING

from ctsql.catalog.system_tables import SYSTEM_SCHEMA, SYSTEM_TABLES
from ctsql.connection.completion import ObjectInfo, Vocabulary
from ctsql.connection.loading import relation_of
from ctsql.connection.open_warehouse import OpenWarehouse
from ctsql.results.result import Result

if TYPE_CHECKING:
    from ctsql.runtime.statements.inspect.commits import ObjectCommit


def known(con: OpenWarehouse) -> Vocabulary:
    """The names for completion."""
    with con._running("known") as engine:
        from ctsql.connection.settings import DESCRIPTIONS
        from ctsql.runtime.spark.internals.sessions import function_names

        catalog, columns_of = engine.refresh_catalog(), engine.relations.columns_now
        return Vocabulary(
            objects=[
                ObjectInfo(
                    i.name.schema,
                    i.name.name,
                    i.kind.value,
                    # A foreign writer may have added some.
                    tuple(c.name for c in (i.columns if i.managed else columns_of(i))),
                )
                for i in catalog
            ]
            + [
                ObjectInfo(SYSTEM_SCHEMA, t.name, "system table", tuple(c.name for c in t.columns))
                for t in SYSTEM_TABLES.values()
            ],
            schemas=[*catalog.schemas.values(), SYSTEM_SCHEMA],
            functions=function_names(),
            settings=list(DESCRIPTIONS),
            schema=con.search_schema,
        )


def now(con: OpenWarehouse) -> int:
    """The newest T of the warehouse."""
    with con._running("now") as engine:
        return engine.timeline.refresh()


def commits(con: OpenWarehouse, name: str) -> "list[ObjectCommit]":
    """The commits of a table, task or materialized view, oldest first; writes nothing."""
    from ctsql.planner.binding.binder import qualify
    from ctsql.runtime.statements.inspect.commits import commits

    target = relation_of(name)
    with con._running(f"commits of {name}") as engine:
        return commits(engine, qualify(target, con.search_schema))


def status(con: OpenWarehouse) -> Result:
    """The status of every task and view; writes and computes nothing."""
    from ctsql.connection.log_answers import status

    rows = con._by_logs(status)
    if rows is None:
        with con._running("status") as engine:
            rows = status(engine)
    return rows
