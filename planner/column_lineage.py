"""Which columns of what an object reads each of its columns is made of. Pure.

Told from the definition's text, by sqlglot's scopes: values that go into a column, not those that
rows are filtered, joined or grouped by. Where the text cannot be followed nothing is told of a
column; so this is for people and their catalogs, never for computing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node as LineageNode, lineage

from ctsql.catalog.names import fold
from ctsql.catalog.reserved_columns import PREFIX
from ctsql.planner.body_rows import WrittenRows, written_rows
from ctsql.planner.nodes import (
    Node,
    Query,
    Relation,
    SelfReference,
    TaskWrite,
    ViewReference,
    ViewWrite,
)
from ctsql.planner.syntax.tokens.rewrite import rewrite

Origin = tuple[str, str]
"""The id of an object, and one of its columns."""
Origins = Mapping[str, frozenset[Origin]]
"""By column; one of which nothing is known is not there."""


@lru_cache(maxsize=1024)
def column_origins(plan: ViewWrite | TaskWrite, *, direct: bool = False) -> dict[str, Origins]:
    """What the columns of a view, or of a task's outputs, are made of; by the output's id.

    Args:
        direct: plain views are told as what is read; else what these read is.
    """
    match plan:
        case ViewWrite():
            columns = [c.name for c in plan.columns]
            return {plan.object_id: _Origins(direct).of_query(plan.desired, columns)}
        case TaskWrite():
            writes_of = ((o.object_id, written_rows(plan, o.object_id)) for o in plan.all_outputs)
            return {o: _Origins(direct).of_output(writes) for o, writes in writes_of}


def query_origins(query: Query, columns: Sequence[str]) -> Origins:
    """What the columns of a plain view are made of, directly."""
    return _Origins(direct=True).of_query(query, columns)


@dataclass(frozen=True, slots=True)
class _Origins:
    """How what a text reads is told; ``direct``: plain views are not looked into."""

    direct: bool

    def of_output(self, writes: Sequence[WrittenRows]) -> Origins:
        """What all statements that write into an output put into its columns."""
        origins_of: dict[str, frozenset[Origin]] = {}
        unknown: set[str] = set()
        for write in writes:
            if write.query is None:
                return {}
            names = [c.name for c in write.columns]
            origins_by_name = self.of_query(write.query, names)
            unknown |= set(names) - origins_by_name.keys()
            for name, origins in origins_by_name.items():
                origins_of[name] = origins_of.get(name, frozenset()) | origins
        return {name: origins for name, origins in origins_of.items() if name not in unknown}

    def of_query(self, query: Query, columns: Sequence[str]) -> Origins:
        """What each column of a query is made of, by the names that these have outside."""
        names = {ref: f"r{n}" for n, ref in enumerate(query.sql.relations)}
        relations = dict(zip(names.values(), query.relations, strict=True))
        text = rewrite(query.sql, relation=lambda ref: names[ref]).text
        columns_inside = [f"c{n}" for n in range(len(columns))]
        text = f"SELECT * FROM ({text}) AS q ({', '.join(columns_inside)})"
        schema = {name: _schema(node) for name, node in relations.items()}
        roots = _roots(text, columns_inside, schema)
        origins = (self._of_root(roots[column], relations) for column in columns_inside)
        return {name: o for name, o in zip(columns, origins, strict=True) if o is not None}

    def _of_root(
        self, root: LineageNode | None, relations: Mapping[str, Node]
    ) -> frozenset[Origin] | None:
        if root is None:
            return None
        all_origins: set[Origin] = set()
        for leaf in (n for n in root.walk() if isinstance(n.source, exp.Table)):
            name = exp.to_column(leaf.name, dialect="spark").name
            origins = self._of_leaf(relations.get(leaf.source.name), name)
            if origins is None:
                return None
            all_origins |= origins
        return frozenset(all_origins)

    def _of_leaf(self, node: Node | None, column: str) -> frozenset[Origin] | None:
        if not isinstance(node, Relation):
            return None
        name = next((n for n in node.columns if fold(n) == fold(column)), None)
        if name is None:
            return None
        if isinstance(node, SelfReference):
            return frozenset()  # what went into the column before
        is_ours = node.object_id.startswith(PREFIX)
        if isinstance(node, ViewReference) and (is_ours or not self.direct):
            return self.of_query(node.query, node.columns).get(name)
        return frozenset({(node.object_id, name)})


def _roots(
    text: str, columns: Sequence[str], schema: Mapping[str, object]
) -> dict[str, LineageNode | None]:
    """Where each column of a text begins to be followed; None where it cannot be."""
    try:
        return dict(lineage(None, text, schema=dict(schema), dialect="spark"))
    except SqlglotError:
        return {column: _root(column, text, schema) for column in columns}


def _root(column: str, text: str, schema: Mapping[str, object]) -> LineageNode | None:
    try:
        return lineage(column, text, schema=dict(schema), dialect="spark")
    except SqlglotError:
        return None


def _schema(node: Node) -> dict[str, str]:
    assert isinstance(node, Relation)  # a definition reads nothing else
    return dict.fromkeys(node.columns, "unknown")
