"""A catalog by hand and an analyst that knows only simple queries, for tests of binding."""

import re
from collections.abc import Sequence

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import error
from ctsql.catalog.items import Item, ObjectKind, Reading
from ctsql.catalog.names import Name, fold, unquote
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Source
from ctsql.planner.binding.binder import Binder, BoundDefinition
from ctsql.planner.binding.task import bind_task
from ctsql.planner.nodes import Delete, Merge, Node, Query, RelationLeaf, Update
from ctsql.planner.syntax import parse, rewrite
from ctsql.planner.syntax.ast import (
    CreateContinualTask,
    CreateMaterializedView,
    CreateView,
    Statement,
)
from tests.helpers.items import an_item, changed

_WIDER = {("int", "bigint"), ("int", "double"), ("bigint", "double")}


def columns(text: str) -> tuple[Column, ...]:
    """``"k int, v string"`` as columns."""
    pairs = (part.split() for part in text.split(",") if part.strip())
    return tuple(Column(name, kind) for name, kind in pairs)


def item(
    kind: ObjectKind, name: str, given: str, *, definition: str = "", reads: Sequence[Item] = ()
) -> Item:
    """An object called ``name`` or ``schema.name``; its id is its name."""
    schema, _, last = name.rpartition(".")
    return an_item(
        id=f"id-{name}",
        kind=kind,
        name=Name(schema or "default", last),
        columns=columns(given),
        definition=definition,
        location=None if kind is ObjectKind.VIEW else f"file:/w/{name}",
        reads=tuple(
            Reading(name=r.name, object_id=r.id, columns=tuple(c.name for c in r.columns))
            for r in reads
        ),
    )


FEED = item(ObjectKind.TABLE, "feed", "key int, val string")
PAGES = item(ObjectKind.TABLE, "pages", "id int, title string")
OTHER = item(ObjectKind.TABLE, "other.feed", "n bigint")
SUMMED = item(ObjectKind.MATERIALIZED_VIEW, "summed", "key int, n bigint", reads=[FEED])
OLD = item(ObjectKind.CONTINUAL_TASK, "old_task", "key int", reads=[FEED])
RECENT = item(
    ObjectKind.VIEW,
    "recent",
    "key int",
    definition="CREATE VIEW recent AS SELECT key FROM feed",
    reads=[FEED],
)
COUNTED = item(
    ObjectKind.VIEW,
    "counted",
    "key int, n bigint",
    definition="CREATE VIEW counted AS SELECT key, count(*) AS n FROM feed GROUP BY key",
    reads=[FEED],
)
LOW, HIGH = (item(ObjectKind.TASK_OUTPUT, name, "key int") for name in ("low", "high"))
SEVERAL = changed(
    item(ObjectKind.CONTINUAL_TASK, "several", "", reads=[FEED]),
    location=None,
    outputs=(LOW.id, HIGH.id),
)
CATALOG = Catalog.of(
    [FEED, PAGES, OTHER, SUMMED, OLD, RECENT, COUNTED, SEVERAL, LOW, HIGH], ["other"]
)


class FakeAnalyst:
    """Types of ``SELECT column, literal, ... FROM relations``, by the catalog's columns."""

    def __init__(self) -> None:
        self.own: dict[str, tuple[Column, ...]] = {}
        self.predicates: list[Delete] = []

    def set_own(self, object_id: str, columns: Sequence[Column]) -> None:
        self.own[object_id] = tuple(columns)

    def is_deterministic(self, query: Query) -> bool:
        return True

    def check_predicate(self, delete: Delete, columns: Sequence[Column]) -> None:
        self.predicates.append(delete)

    def assigned_types(
        self, statement: Update | Merge, columns: Sequence[Column]
    ) -> list[tuple[str, ...]]:
        """Every value is of the type of its column."""
        kinds = {c.name: c.type.lower() for c in columns}
        clauses = (statement,) if isinstance(statement, Update) else statement.clauses
        return [tuple(kinds[a.column] for a in c.assignments) for c in clauses]

    def value_types(self, values: Sequence[Query]) -> tuple[str, ...]:
        """Literals: texts in quotes, and numbers."""
        return tuple("string" if "'" in v.sql.span.text else "int" for v in values)

    def assignable(self, value_type: str, column_type: str) -> bool:
        """Equal types, and a few that widen."""
        column_type = column_type.lower()
        return value_type in (column_type, "void") or (value_type, column_type) in _WIDER

    def columns(self, query: Query) -> tuple[Column, ...]:
        """The items of the select list, one by one."""
        text = rewrite(query.sql, relation=lambda ref: ref.span.text).text
        found = re.match(r"\s*SELECT (?:DISTINCT )?(.*?)(?: FROM |$)", text, re.S)
        assert found, text
        known = [c for node in query.relations for c in self._of(node)]
        made: list[Column] = []
        for part in re.split(r",(?![^(]*\))", found[1]):
            made += self._item(part.strip(), known, query)
        return tuple(made)

    def _of(self, node: Node) -> tuple[Column, ...]:
        if isinstance(node, RelationLeaf):
            if node.object_id in self.own:
                return self.own[node.object_id]
            return CATALOG.items[node.object_id].columns
        raise TypeError(type(node).__name__)

    def _item(self, part: str, known: list[Column], query: Query) -> list[Column]:
        if part == "*":
            return known
        part, _, alias = part.partition(" AS ")
        alias = unquote(alias)
        name = part.split(".")[-1]
        if re.fullmatch(r"\d+", part):
            return [Column(alias or part, "int")]
        if part.upper() == "NULL":
            return [Column(alias or "NULL", "void")]
        if part.startswith("'"):
            return [Column(alias or part, "string")]
        if part.endswith(")"):
            return [Column(alias or part, "bigint" if part.startswith("count") else "double")]
        for column in known:
            if fold(column.name) == fold(name):
                return [Column(alias or column.name, column.type)]
        raise error("UNKNOWN_COLUMN", span=query.sql.span, column=name, detail="", hint="")


def bind(
    sql: str, analyst: FakeAnalyst | None = None, catalog: Catalog = CATALOG
) -> BoundDefinition:
    statement: Statement = parse(Source(sql).whole())
    binder = Binder(catalog, "default", analyst or FakeAnalyst())
    match statement:
        case CreateContinualTask():
            names = [".".join(o.target.parts) for o in statement.outputs]
            outputs = [item(ObjectKind.TASK_OUTPUT, name, "") for name in names]
            own = _own(statement, ObjectKind.CONTINUAL_TASK)
            return bind_task(binder, statement, own, outputs)
        case CreateMaterializedView():
            own = _own(statement, ObjectKind.MATERIALIZED_VIEW)
            return binder.bind_materialized_view(statement, own)
        case CreateView():
            return binder.bind_view(statement)
        case _:
            raise TypeError(type(statement).__name__)


def _own(statement: CreateContinualTask | CreateMaterializedView, kind: ObjectKind) -> Item:
    return item(kind, ".".join(statement.target.parts), "")
