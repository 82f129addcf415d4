"""Resolves column names: by sources in FROM, aliases of the select list, then outer queries.

Names are compared without regard to case, as Spark does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ctsql.catalog.names import fold
from ctsql.catalog.spans import Span
from ctsql.planner.ivm.algebra.nodes import Col, Expr, Node
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.parse.clauses import CteText


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRelation:
    """A relation in FROM."""

    alias: tuple[str, ...]  # the parts of its name, folded; empty for the merged columns of USING
    # names and columns, in order; a name may be empty or appear twice.
    columns: tuple[tuple[str, Col], ...]
    # names that an unqualified reference resolves elsewhere (USING).
    merged_names: frozenset[str] = frozenset()


@dataclass(slots=True)
class Cte:
    """A common table expression; compiled on first use."""

    text: CteText
    ctes: "Mapping[str, Cte]"
    node_and_names: tuple[Node, list[str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The columns and common table expressions that are visible at a place."""

    sources: tuple[NamedRelation, ...] = ()
    outer: "Scope | None" = None
    aliases: Mapping[str, Expr] = field(default_factory=dict)
    ctes: Mapping[str, Cte] = field(default_factory=dict)

    def resolve(self, chain: Sequence[str], span: Span) -> tuple[Expr, int] | None:
        """The column or aliased expression at the start of a chain of names, and the names used.

        The remaining names are fields of a struct.
        """
        match = self._own(chain, span)
        if match is not None:
            return Expr.of(match[0]), match[1]
        alias = self.aliases.get(fold(chain[0]))
        if alias is not None:
            return alias, 1
        return None if self.outer is None else self.outer.resolve(chain, span)

    def own_column(self, chain: Sequence[str], span: Span) -> Col | None:
        """The column of a source in FROM at the start of a chain of names."""
        match = self._own(chain, span)
        return None if match is None else match[0]

    def _own(self, chain: Sequence[str], span: Span) -> tuple[Col, int] | None:
        names = [fold(part) for part in chain]
        for length in (2, 1):
            if len(names) <= length:
                continue
            matching = [
                s for s in self.sources if s.alias and s.alias[-length:] == (*names[:length],)
            ]
            columns = [c for s in matching for n, c in s.columns if fold(n) == names[length]]
            if len(columns) > 1:
                raise Refusal("AMBIGUOUS_COLUMN", span)
            if columns:
                return columns[0], length + 1
        columns = [
            col
            for source in self.sources
            for name, col in source.columns
            if fold(name) == names[0] and names[0] not in source.merged_names
        ]
        if len(set(columns)) > 1:
            raise Refusal("AMBIGUOUS_COLUMN", span)
        return (columns[0], 1) if columns else None

    def star(self, qualifier: Sequence[str]) -> list[tuple[str, Col]] | None:
        """Return the columns of ``*`` or ``t.*``; None if there is no such relation."""
        if not qualifier:
            return [
                (name, col)
                for source in self.sources
                for name, col in source.columns
                if fold(name) not in source.merged_names
            ]
        names = tuple(fold(part) for part in qualifier)
        for source in self.sources:
            if source.alias[-len(names) :] == names:
                return list(source.columns)
        return None


def merge_sources(
    left: Sequence[NamedRelation], right: Sequence[NamedRelation], shared_columns: Mapping[str, Col]
) -> tuple[NamedRelation, ...]:
    """The sources of a join with USING: the shared columns first and once."""
    if not shared_columns:
        return (*left, *right)
    names = frozenset(fold(name) for name in shared_columns)
    first = NamedRelation(alias=(), columns=tuple(shared_columns.items()))
    rest = [replace(source, merged_names=source.merged_names | names) for source in (*left, *right)]
    return (first, *rest)
