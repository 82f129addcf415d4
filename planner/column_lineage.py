"""Which columns of what an object reads each of its columns is made of. Pure.

Told from the definition's text, by sqlglot's scopes: values that go into a column, not those that
rows are filtered, joined or grouped by. Where the text cannot be followed nothing is told of a
column; so this is for people and their catalogs, never for computing.
"""

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage

from ctsql.catalog.names import fold
from ctsql.planner.nodes import (
    ChangesInput,
    Insert,
    Merge,
    Node,
    Query,
    Relation,
    TaskWrite,
    Update,
    ViewReference,
    ViewWrite,
)
from ctsql.planner.syntax.tokens.rewrite import rewrite

Origin = tuple[str, str]
"""The id of an object, and one of its columns."""
Origins = Mapping[str, frozenset[Origin]]
"""By column; one of which nothing is known is not there."""


def column_origins(plan: ViewWrite | TaskWrite) -> dict[str, Origins]:
    """What the columns of a view, or of a task's outputs, are made of; by the output's id."""
    if isinstance(plan, ViewWrite):
        return {plan.object_id: _of_query(plan.desired, [c.name for c in plan.columns])}
    return {o.object_id: _of_output(plan, o.object_id) for o in plan.written}


def _of_output(plan: TaskWrite, object_id: str) -> Origins:
    """What all INSERTs into an output put into its columns; other statements are not followed."""
    body = plan.transaction.statements
    changed = (s.of for s in body if isinstance(s, Update | Merge))
    if any(isinstance(of, Relation) and of.object_id == object_id for of in changed):
        return {}
    inserts = [s for s in body if isinstance(s, Insert) and s.object_id == object_id]
    joined: dict[str, frozenset[Origin]] = {}
    unknown: set[str] = set()
    for insert in inserts:
        names = insert.filled
        if not names:
            return {}  # BY NAME, and only Spark knows the query's columns
        found = _of_query(insert.query, names)
        unknown |= set(names) - found.keys()
        for name, origins in found.items():
            joined[name] = joined.get(name, frozenset()) | origins
    return {name: origins for name, origins in joined.items() if name not in unknown}


def _of_query(query: Query, columns: Sequence[str]) -> Origins:
    """What each column of a query is made of, by the names that these have outside."""
    names = {ref: f"r{n}" for n, ref in enumerate(query.sql.relations)}
    relations = dict(zip(names.values(), query.relations, strict=True))
    text = rewrite(query.sql, relation=lambda ref: names[ref]).text
    given = [f"c{n}" for n in range(len(columns))]
    text = f"SELECT * FROM ({text}) AS q ({', '.join(given)})"
    schema = {name: _schema(node) for name, node in relations.items()}
    found = (_of_column(column, text, schema, relations) for column in given)
    return {name: o for name, o in zip(columns, found, strict=True) if o is not None}


def _schema(node: Node) -> dict[str, str]:
    assert isinstance(node, Relation)  # a definition reads nothing else
    return dict.fromkeys(node.columns, "unknown")


def _of_column(
    column: str, text: str, schema: Mapping[str, object], relations: Mapping[str, Node]
) -> frozenset[Origin] | None:
    try:
        root = lineage(column, text, schema=dict(schema), dialect="spark")
        leaves = [n for n in root.walk() if isinstance(n.source, exp.Table)]
        found = [(n.source.name, exp.to_column(n.name, dialect="spark").name) for n in leaves]
    except SqlglotError:
        return None
    return _joined(_of_leaf(relations.get(table), name) for table, name in found)


def _of_leaf(node: Node | None, column: str) -> frozenset[Origin] | None:
    if not isinstance(node, Relation):
        return None
    name = next((n for n in node.columns if fold(n) == fold(column)), None)
    if name is None:
        return None
    if isinstance(node, ViewReference):
        return _of_query(node.query, node.columns).get(name)
    if isinstance(node, ChangesInput) and name == node.columns[-1]:
        return frozenset()  # the number of copies, which no object has as a column
    return frozenset({(node.object_id, name)})


def _joined(parts: Iterable[frozenset[Origin] | None]) -> frozenset[Origin] | None:
    known = list(parts)
    if any(part is None for part in known):
        return None
    return frozenset[Origin]().union(*(part for part in known if part is not None))
