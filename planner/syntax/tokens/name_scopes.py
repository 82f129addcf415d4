"""Finds qualified columns in SQL, and decides which relation each means, as Spark does. Pure.

Spark gets every relation under our name with an alias, so it cannot resolve
``schema.table.column``. The scopes come from sqlglot's tree; which relation is meant is decided
once columns are loaded. Scopes are searched from the innermost. In a scope ``a.b.c`` is column
``c`` of ``a.b``, else field ``c`` of column ``b`` of ``a``, else a field of column ``a``.

[schema-kept] a relation that is qualified with its schema somewhere gets an alias of both names, ``
    `shop.t` ``, in all names that mean it. Spark resolves the others.

Source: Spark's name resolution, https://spark.apache.org/docs/latest/sql-ref-name-resolution.html
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from sqlglot import exp

from ctsql.catalog.errors import error
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import (
    Edit,
    NamedSource,
    NameScope,
    QualifiedName,
    RelationRef,
    SqlText,
)
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.rewrite import RewrittenText
from ctsql.planner.syntax.tokens.tokenizer import Token, Tokens

_STATEMENTS = (exp.Select, exp.Update, exp.Delete, exp.Merge)
_ITEMS = (exp.Table, exp.Lateral, exp.Values, exp.Unnest)


def source_of(ref: RelationRef, alias: str | None = None) -> NamedSource:
    """A relation as a source of a scope, with the alias that follows it, if any."""
    if alias is not None:
        return NamedSource(names=(fold(alias),), columns=(ref,))
    return NamedSource(names=tuple(map(fold, ref.parts)), columns=(ref,), ref=ref)


def qualified_names(
    tree: exp.Expr,
    sql: RewrittenText,
    tokens: Tokens,
    relations: Mapping[int, RelationRef],
    outer: Sequence[NameScope],
) -> tuple[QualifiedName, ...]:
    """The columns and stars that are qualified by the name of a relation without alias.

    ``relations`` are by the identity of their nodes; ``outer`` scopes are innermost first.
    """
    sources = [s for scope in outer for s in scope if s.ref is not None]
    refs = [*relations.values(), *(s.ref for s in sources if s.ref is not None)]
    last_names = {fold(ref.parts[-1]) for ref in refs if not ref.aliased}
    starts = {ref.name_span.start for ref in refs}
    chains = [
        chain
        for chain in _chains(tokens)
        if len(chain) > 1
        and chain[0].start not in starts
        and not last_names.isdisjoint(fold(part.text) for part in chain[:2])
    ]
    if not chains:
        return ()
    scopes = _Scopes(tree, relations, outer)
    places = {
        sql.origin(start): node
        for node in tree.find_all(exp.Identifier)
        if (start := node.meta.get("start")) is not None
    }
    is_piped = any(token.upper == "|>" for token in tokens)
    names = []
    for chain in chains:
        node = places.get(chain[0].start)
        around = () if node is None else tuple(scopes.around(node))
        if node is None or is_piped:  # sqlglot makes other queries of the steps of a pipe
            found = [s for query in tree.find_all(*_STATEMENTS) for s in scopes.of(query)]
            found += [s for scope in outer for s in scope]
            around = (*around, tuple(dict.fromkeys(found)))
        names.append(
            QualifiedName(
                parts=tuple(fold(part.text) for part in chain),
                span=tk.span_of(chain),
                first=chain[0].span,
                second=tk.span_of(chain[:2]),
                scopes=around,
            )
        )
    return tuple(names)


def _chains(tokens: Tokens) -> Iterator[list[Token]]:
    index = 0
    while index < len(tokens):
        chain = tk.name_chain(tokens, index, has_star=True)
        index += 2 * len(chain) - 1
        if chain[0].is_name:
            yield chain


class _Scopes:
    """The scopes of a tree; each is read once."""

    def __init__(
        self, tree: exp.Expr, relations: Mapping[int, RelationRef], outer: Sequence[NameScope]
    ) -> None:
        self.tree = tree
        self.relations = relations
        self.outer = outer
        self._read: dict[int, NameScope] = {}

    def around(self, node: exp.Expr) -> Iterator[NameScope]:
        """The scopes in which a name is looked up, innermost first."""
        path: list[exp.Expr] = [node]  # from the last scope up
        while (parent := path[-1].parent) is not None:
            if isinstance(parent, exp.Lambda) and path[-1].arg_key == "this":
                arguments = tuple(fold(e.name) for e in parent.expressions)
                yield (NamedSource(names=(), columns=arguments),)
            elif isinstance(parent, _STATEMENTS) and not isinstance(parent.parent, exp.When):
                if _is_visible(path):
                    yield self._merged(parent, path) or self.of(parent)
                path = []
            path.append(parent)
        yield from self.outer

    def of(self, query: exp.Expr) -> NameScope:
        """The sources of a SELECT's FROM clause, or of what another statement names."""
        if id(query) not in self._read:
            roots = [query.args.get(key) for key in ("this", "using", "from_")]
            roots = roots[2:] if isinstance(query, exp.Select) else roots
            roots += [*(query.args.get("joins") or ()), *(query.args.get("laterals") or ())]
            found = [s for root in roots if isinstance(root, exp.Expr) for s in self._items(root)]
            self._read[id(query)] = tuple(found)
        return self._read[id(query)]

    def _items(self, node: exp.Expr) -> Iterator[NamedSource]:
        """The sources in a part of a FROM clause."""
        if isinstance(node, exp.From | exp.Join):
            yield from self._items(node.this)
            return
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            yield self._source(node, self._outputs(node.this))
        elif isinstance(node, exp.Subquery | exp.Paren):
            yield from self._items(node.this)
        elif isinstance(node, _ITEMS):
            yield self._item(node)
        for join in (*(node.args.get("joins") or ()), *(node.args.get("laterals") or ())):
            yield from self._items(join)

    def _item(self, node: exp.Expr) -> NamedSource:
        ref = self.relations.get(id(node))
        if ref is not None and node.args.get("pivots") is None:
            if not node.alias and not ref.aliased:
                return source_of(ref)
            return self._source(node, (ref,))
        inner = node.this if isinstance(node, exp.Lateral) else None
        columns = self._outputs(inner) if isinstance(inner, exp.Query) else None
        source = self._source(node, columns)
        return source if source.names else NamedSource(names=(fold(node.name),), columns=columns)

    def _source(self, node: exp.Expr, columns: tuple[str | RelationRef, ...] | None) -> NamedSource:
        alias = node.args.get("alias")
        listed = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
        if listed:
            columns = tuple(fold(column.name) for column in listed)
        return NamedSource(names=(fold(node.alias),) if node.alias else (), columns=columns)

    def _outputs(self, query: exp.Expr) -> tuple[str | RelationRef, ...] | None:
        """A query's columns by name, a relation for its star; None if unknown."""
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select):
            return None
        columns: list[str | RelationRef] = []
        for item in query.expressions:
            if not item.is_star:
                columns.append(fold(item.alias_or_name))
                continue
            qualifier = fold(item.args["table"].name) if item.args.get("table") else None
            for source in self.of(query):
                if qualifier is not None and qualifier not in source.names[-1:]:
                    continue
                if source.columns is None:
                    return None
                columns += source.columns
        return tuple(dict.fromkeys(columns))

    def _merged(self, merge: exp.Expr, path: Sequence[exp.Expr]) -> NameScope:
        """The sources that a clause of a MERGE sees; none for another statement, or for ON."""
        at = next((i for i, node in enumerate(path) if isinstance(node, exp.When)), None)
        if at is None:
            return ()
        when, action = path[at], path[at - 1]
        target, *source = self.of(merge)
        is_set = any(
            below.arg_key == "this" and isinstance(node, exp.EQ)
            for below, node in pairwise(path)
            if isinstance(node.parent, exp.Update)
        )
        is_column = isinstance(action, exp.Insert) and path[at - 2].arg_key == "this"
        if is_set or is_column or (when.args.get("source") and not when.args.get("matched")):
            return (target,)
        return () if when.args.get("matched") else tuple(source)


def _is_visible(path: Sequence[exp.Expr]) -> bool:
    """Whether a statement's sources are visible at the part that a path leads through."""
    for node in path:
        if isinstance(node, exp.Lateral) or (
            isinstance(node.parent, exp.Join) and node.arg_key == "on"
        ):
            return True
    return path[-1].arg_key not in ("from_", "joins", "with_", "using", "this")


ColumnNamesOf = Callable[[RelationRef], Sequence[str] | None]
"""The names of a relation's columns; None if they are unknown."""
FoldedName = tuple[str, ...]  # schema and name of a relation, folded; an alias alone


class QualifiedNames:
    """The meaning of the qualified names in the pieces of one statement.

    Args:
        texts: the pieces. search_schema: the schema of names without one. columns_of: the columns
            of a relation; by default a name means the nearest relation of that name.
    """

    def __init__(
        self,
        texts: Iterable[SqlText],
        search_schema: str,
        columns_of: ColumnNamesOf = lambda _: None,
    ) -> None:
        self.search_schema = fold(search_schema)
        self.columns_of = columns_of
        self.meanings = {n: self._meaning(n) for t in texts for n in t.names}
        self.qualified = {
            self._key(sources[0]) for count, sources in self.meanings.values() if count > 1
        }

    def qualifiers(self) -> Iterator[tuple[Span, RelationRef]]:
        """The places where a relation without alias qualifies a column, each with the relation."""
        for name, (count, sources) in self.meanings.items():
            if len(set(map(self._key, sources))) == 1 and sources[0].ref is not None:
                yield (name.second if count > 1 else name.first), sources[0].ref

    def key(self, ref: RelationRef) -> FoldedName:
        """Schema and name of a relation, folded."""
        parts = tuple(map(fold, ref.parts))
        return parts if len(parts) > 1 else (self.search_schema, *parts)

    def alias(self, ref: RelationRef) -> str:
        """The alias that a relation without one must get."""
        if self.key(ref) not in self.qualified:
            return ref.parts[-1]
        return ".".join(ref.parts if len(ref.parts) > 1 else (self.search_schema, *ref.parts))

    def applied(self, text: SqlText) -> SqlText:
        """The piece with qualified names that Spark resolves correctly; AMBIGUOUS_COLUMN."""
        if not text.names:
            return self._with_aliases(text)
        edits = [edit for name in text.names for edit in self._edits(name)]
        return replace(self._with_aliases(text), edits=(*text.edits, *edits), names=())

    def _with_aliases(self, text: SqlText) -> SqlText:
        relations = tuple(
            ref if ref.aliased or ref.file else replace(ref, alias=self.alias(ref))
            for ref in text.relations
        )
        return text if relations == text.relations else replace(text, relations=relations)

    def _edits(self, name: QualifiedName) -> Iterator[Edit]:
        count, sources = self.meanings[name]
        keys = list(dict.fromkeys(map(self._key, sources)))
        if self.qualified.isdisjoint(keys):
            return
        aliases = [backtick(s.names[-1] if s.ref is None else self.alias(s.ref)) for s in sources]
        unique = list(dict.fromkeys(aliases))
        if len(unique) == 1:
            yield Edit(span=name.second if count > 1 else name.first, text=unique[0])
        elif name.is_star:
            yield Edit(span=name.span, text=", ".join(f"{alias}.*" for alias in unique))
        else:
            raise error(
                "AMBIGUOUS_COLUMN",
                span=name.span,
                column=name.parts[count],
                candidates=", ".join(f"{'.'.join(key)}.{name.parts[count]}" for key in keys),
            )

    def _key(self, source: NamedSource) -> FoldedName:
        return source.names if source.ref is None else self.key(source.ref)

    def _meaning(self, name: QualifiedName) -> tuple[int, NameScope]:
        """The number of a name's parts that are the relation's, and the sources of that name."""
        for scope in name.scopes:
            for count in (2, 1):
                if len(name.parts) <= count:
                    continue
                parts = name.parts[:count]
                found = tuple(s for s in scope if s.names and self._key(s)[-count:] == parts)
                if not name.is_star or len(name.parts) > count + 1:
                    found = tuple(s for s in found if self._has(s, name.parts[count], unknown=True))
                if found:
                    return count, found
            if any(self._has(source, name.parts[0], unknown=False) for source in scope):
                break
        return 0, ()

    def _has(self, source: NamedSource, column: str, *, unknown: bool) -> bool:
        """Whether a source has a column; ``unknown`` is the answer if its columns are unknown."""
        if source.columns is None:
            return unknown
        for one in source.columns:
            if isinstance(one, str):
                if one == column:
                    return True
                continue
            columns = self.columns_of(one)
            if columns is None:
                if unknown:
                    return True
            elif column in map(fold, columns):
                return True
        return False
