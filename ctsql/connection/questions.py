"""Questions about a warehouse: its relations, its newest T, commits, and the status."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ctsql.catalog.system_tables import SYSTEM_SCHEMA, SYSTEM_TABLES
from ctsql.connection.completion import Relation as Relation, Vocabulary
from ctsql.connection.loading import relation_of
from ctsql.connection.open_warehouse import OpenWarehouse
from ctsql.results.result import Result

if TYPE_CHECKING:
    from ctsql.runtime.log_reader import LogReader
    from ctsql.runtime.statements.inspect.commits import ObjectCommit


def relations(con: OpenWarehouse) -> list[Relation]:
    """What queries can read, with its columns, by schema and name; computes and writes nothing."""
    found = con._by_logs(_relations)
    if found is None:
        with con._running("relations") as engine:
            found = _relations(engine)
    return found


def _relations(reader: "LogReader") -> list[Relation]:
    def of_objects() -> Iterator[Relation]:
        for item in sorted(reader.refresh_catalog(), key=lambda item: item.name.key):
            # A foreign writer may have added columns.
            columns = item.columns if item.managed else reader.relations.columns_now(item)
            yield Relation(
                schema=item.name.schema,
                name=item.name.name,
                kind=item.kind.value,
                columns=columns,
                comment=item.comment,
                definition=item.definition.text,
                id=item.id,
            )

    of_system = (
        Relation(
            schema=SYSTEM_SCHEMA,
            name=table.name,
            kind="system table",
            columns=table.columns,
            comment=table.about,
            id=f"{SYSTEM_SCHEMA}.{table.name}",
        )
        for table in SYSTEM_TABLES.values()
    )
    return [*of_objects(), *of_system]


def known(con: OpenWarehouse) -> Vocabulary:
    """The names for completion."""
    with con._running("known") as engine:
        from ctsql.connection.settings import DESCRIPTIONS
        from ctsql.runtime.spark.internals.sessions import function_names

        return Vocabulary(
            objects=_relations(engine),
            schemas=[*engine.catalog.schemas.values(), SYSTEM_SCHEMA],
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
