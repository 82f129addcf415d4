"""Decides which relation a qualified column or star means, as Spark does. Pure.

Scopes are searched from the innermost. In a scope ``a.b.c`` is column ``c`` of ``a.b``, else field
``c`` of column ``b`` of ``a``, else a field of column ``a``.

[schema-kept] a relation that is qualified with its schema somewhere gets an alias of both names, ``
    `shop.t` ``, in all names that mean it. Spark resolves the others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

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
        """A piece whose qualified names Spark resolves as they are meant; AMBIGUOUS_COLUMN."""
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
        """How many parts of a name are the relation's, and what is called so in its scope."""
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
