"""Column lineage: the input columns from which each column is computed. Pure.

sqlglot's scopes give the columns whose values are used, not those for filters, joins or groups. If
a text cannot be followed, the lineage is unknown. For display and data catalogs, never for
computing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node as LineageNode, lineage

from ctsql.catalog.names import fold
from ctsql.planner import nodes as lp
from ctsql.planner.syntax.tokens.rewrite import rewrite

Origin = tuple[str, str]  # the id of an object, and one of its columns
Origins = Mapping[str, frozenset[Origin]]  # by column; a column with unknown lineage is left out


@lru_cache(maxsize=1024)
def column_origins(
    plan: lp.ViewWrite | lp.TaskWrite, *, direct: bool = False
) -> dict[str, Origins]:
    """Origins of columns by the output's id; ``direct`` does not follow plain views."""
    if isinstance(plan, lp.ViewWrite):
        columns = [c.name for c in plan.columns]
        return {plan.object_id: _Origins(direct).of_query(plan.desired, columns)}
    return _of_task(plan, direct)


def query_origins(query: lp.Query, columns: Sequence[str]) -> Origins:
    """The direct origins of a plain view's columns."""
    return _Origins(direct=True).of_query(query, columns)


def _of_task(plan: lp.TaskWrite, direct: bool) -> dict[str, Origins]:
    """The origins of each output's columns; the outputs' own columns are resolved."""
    reader = _Origins(direct, {view.object_id: view for view in plan.input_views})
    origins_of: dict[str, dict[str, frozenset[Origin]]] = {
        o.object_id: {} for o in plan.all_outputs
    }
    unknown: set[Origin] = set()
    for statement in plan.transaction.statements:
        output = lp.output_of(statement)
        for columns, origins in reader.of_statement(statement):
            unknown |= {(output, name) for name in columns if name not in origins}
            for name, sources in origins.items():
                known = origins_of[output].get(name, frozenset())
                origins_of[output][name] = known | sources
    return {
        output: {
            name: _outside(sources, origins_of)
            for name, sources in columns.items()
            if (output, name) not in unknown
        }
        for output, columns in origins_of.items()
    }


def _outside(
    sources: frozenset[Origin], origins_of: Mapping[str, Mapping[str, frozenset[Origin]]]
) -> frozenset[Origin]:
    """The columns of other objects from which some columns are computed."""
    reached: set[Origin] = set()
    waiting = set(sources)
    while waiting:
        origin = waiting.pop()
        reached.add(origin)
        object_id, column = origin
        own = origins_of.get(object_id, {}).get(column, frozenset())
        waiting |= own - reached
    return frozenset(origin for origin in reached if origin[0] not in origins_of)


@dataclass(frozen=True, slots=True)
class _Origins:
    direct: bool  # plain views are not followed
    # the view or condition through which a body reads an input, by the input's id
    input_views: Mapping[str, lp.ViewReference] = field(default_factory=dict)

    def of_statement(
        self, statement: lp.Insert | lp.Delete | lp.Update | lp.Merge
    ) -> Iterator[tuple[Sequence[str], Origins]]:
        """The columns that a statement fills, and their known origins."""
        match statement:
            case lp.Insert():
                # Without a list only Spark knows which columns a query BY NAME fills.
                names = {fold(c.name): c.name for c in statement.target}
                columns = [names[fold(c)] for c in statement.filled_columns] or list(names.values())
                is_known = bool(statement.filled_columns)
                yield columns, self.of_query(statement.query, columns) if is_known else {}
            case lp.Update():
                text = _Text()
                ctes = "" if statement.ctes is None else f"{text.add(statement.ctes)} "
                rows = text.held(statement)
                yield self._of_assignments(text, statement.assignments, rows, ctes)
            case lp.Merge():
                for clause in statement.clauses:
                    text = _Text()
                    source = f"({text.add(statement.source)}) AS {statement.source_alias}"
                    rows = f"{text.held(statement)} JOIN {source} ON true"
                    yield self._of_assignments(text, clause.assignments, rows)
            case lp.Delete():
                pass

    def _of_assignments(
        self, text: "_Text", assignments: Sequence[lp.Assign], rows: str, ctes: str = ""
    ) -> tuple[Sequence[str], Origins]:
        columns = [a.column for a in assignments]
        if not columns:
            return columns, {}
        values = ", ".join(
            "NULL" if a.value is None else f"({text.add(a.value)})" for a in assignments
        )
        return columns, self._of_text(f"{ctes}SELECT {values} FROM {rows}", text.relations, columns)

    def of_query(self, query: lp.Query, columns: Sequence[str]) -> Origins:
        """The origins of each column of a query, by the outer names of the columns."""
        text = _Text()
        return self._of_text(text.add(query), text.relations, columns)

    def _of_text(
        self, text: str, relations: Mapping[str, lp.Node], columns: Sequence[str]
    ) -> Origins:
        columns_inside = [f"c{n}" for n in range(len(columns))]
        text = f"SELECT * FROM ({text}) AS q ({', '.join(columns_inside)})"
        schema = {name: _schema(node) for name, node in relations.items()}
        roots = _roots(text, columns_inside, schema)
        origins = (self._of_root(roots[column], relations) for column in columns_inside)
        return {name: o for name, o in zip(columns, origins, strict=True) if o is not None}

    def _of_root(
        self, root: LineageNode | None, relations: Mapping[str, lp.Node]
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

    def _of_leaf(self, node: lp.Node | None, column: str) -> frozenset[Origin] | None:
        if not isinstance(node, lp.RelationLeaf):
            return None
        name = next((n for n in node.columns if fold(n) == fold(column)), None)
        if name is None:
            return None
        if isinstance(node, lp.ChangesInput) and name == node.columns[-1]:
            return frozenset()  # the diff
        view = node if isinstance(node, lp.ViewReference) else self.input_views.get(node.object_id)
        if view is not None and not self.direct:
            return _Origins(direct=False).of_query(view.query, view.columns).get(name)
        return frozenset({(node.object_id, name)})


class _Text:
    """A text made of pieces of a definition, whose ``relations`` have other names."""

    def __init__(self) -> None:
        self.relations: dict[str, lp.Node] = {}

    def add(self, query: lp.Query) -> str:
        """A piece, over the names of its relations."""
        names = {
            ref: self._name(n) for ref, n in zip(query.sql.relations, query.relations, strict=True)
        }
        return rewrite(query.sql, relation=lambda ref: names[ref]).text

    def held(self, statement: lp.Update | lp.Merge) -> str:
        """The rows that a statement changes, under their alias."""
        return f"{self._name(statement.of)} AS {statement.alias}"

    def _name(self, node: lp.Node) -> str:
        name = f"r{len(self.relations)}"
        self.relations[name] = node
        return name


def _roots(
    text: str, columns: Sequence[str], schema: Mapping[str, object]
) -> dict[str, LineageNode | None]:
    """The node at which each column's origins are searched; None if it cannot be followed."""
    try:
        return dict(lineage(None, text, schema=dict(schema), dialect="spark"))
    except SqlglotError:
        return {column: _root(column, text, schema) for column in columns}


def _root(column: str, text: str, schema: Mapping[str, object]) -> LineageNode | None:
    try:
        return lineage(column, text, schema=dict(schema), dialect="spark")
    except SqlglotError:
        return None


def _schema(node: lp.Node) -> dict[str, str]:
    assert isinstance(node, lp.RelationLeaf)  # a definition reads nothing else
    return dict.fromkeys(node.columns, "unknown")
