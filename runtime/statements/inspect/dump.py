"""The statements that create the objects of a warehouse again, in order of dependence."""

from collections.abc import Iterable, Iterator

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import behind_needs, outputs_of, owner_of_quarantine, parts_of
from ctsql.catalog.errors import NotSupported, StatementError
from ctsql.catalog.items import Item, Table, TaskOutput
from ctsql.catalog.names import DEFAULT_SCHEMA, fold, quote
from ctsql.catalog.schemas import commented
from ctsql.catalog.spans import Source
from ctsql.planner.literals import literal
from ctsql.planner.syntax import ast as st, parse
from ctsql.runtime.engine import Engine
from ctsql.runtime.statements.inspect.show import current_definition, renames


def dump(engine: Engine) -> list[tuple[str, str]]:
    """A name and a text for the schemas, then for each object, in an executable order.

    The definitions are as typed, with current names; tables are as they are now. Rows are not
    included: tables of the new warehouse are empty, except for attached ones.

    Raises STORED_DATA_INVALID if an entry of the catalog cannot be read.
    """
    catalog = engine.refresh_catalog()
    engine.timeline.refresh()
    schemas = [s for s in sorted(catalog.schemas.values()) if fold(s) != DEFAULT_SCHEMA]
    texts = [("schemas", "".join(f"CREATE SCHEMA IF NOT EXISTS {quote(s)};\n" for s in schemas))]

    def needs(object_id: str) -> Iterator[str]:
        others = (r.object_id for r in catalog.items[object_id].reads)
        return (other for other in others if other in catalog.items)

    by_name = sorted(catalog, key=lambda i: (not isinstance(i, Table), i.name.key))
    in_order = [catalog.items[i] for i in behind_needs((i.id for i in by_name), needs)]
    for item in sorted(in_order, key=lambda i: i.replaces is not None):
        if not isinstance(item, TaskOutput) and owner_of_quarantine(catalog, item) is None:
            # An object that another one makes comes with it.
            current = engine.relations.current(item.check())
            texts.append((f"{item.name.schema}.{item.name.name}", _text(engine, current)))
    return texts if schemas else texts[1:]


def _text(engine: Engine, item: Item) -> str:
    definition = current_definition(engine, item)
    lines = [f"USE {quote(item.search_schema)};", f"{definition};"]
    lines += (f"{text};" for text in renames(engine, item))
    comments = _typed_comments(engine.catalog, item, definition)
    for one in (item, *parts_of(engine.catalog, item)):
        lines += _comments(engine, one, comments.get(one.id, {}))
    if engine.relations.is_suspended(item):
        lines.append(f"ALTER CONTINUAL TASK {item.name.qualified()} SUSPEND;")
    return "\n".join(lines) + "\n"


Comments = dict[str | None, str | None]
"""Comments of an object, by None, and of its columns, by folded names."""


def _typed_comments(catalog: Catalog, item: Item, definition: str) -> dict[str, Comments]:
    """The comments in a definition, by the id of the object that it makes."""
    try:
        statement = parse(Source(definition, str(item.name)).whole())
    except (StatementError, NotSupported):
        return {}  # written by a newer version of ctsql
    match statement:
        case (
            st.CreateTable()
            | st.CreateView()
            | st.CreateMaterializedView()
            | st.CreateContinualTask()
        ):
            comments = {item.id: {None: statement.comment, **_of_columns(statement.columns)}}
        case _:
            return {}
    if isinstance(statement, st.CreateContinualTask):
        outputs = zip(outputs_of(catalog, item), statement.outputs, strict=False)
        comments |= {output.id: _of_columns(declaration.columns) for output, declaration in outputs}
    return comments


def _of_columns(columns: Iterable[st.ColumnDef]) -> Comments:
    return {fold(c.name): c.comment for c in columns}


def _comments(engine: Engine, item: Item, comments: Comments) -> Iterator[str]:
    """COMMENT ON, if the definition has other ``comments``."""
    name = item.name.qualified()
    if item.comment != comments.get(None):
        yield f"COMMENT ON {item.kind.keyword} {name} IS {literal(item.comment)};"
    for column in commented(item.columns, engine.relations.columns_now(item)):
        if column.comment != comments.get(fold(column.name)):
            place = f"{name}.{quote(column.name)}"
            yield f"COMMENT ON COLUMN {place} IS {literal(column.comment)};"
