"""Cuts a FROM clause into relations and joins.

Source: the rules ``fromClause``, ``relation``, ``joinRelation``, ``lateralView`` of Spark's
SqlBaseParser.g4.
"""

from dataclasses import dataclass
from typing import TypedDict

from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.parse.clauses import (
    FromItem,
    QueryText,
    TableSource,
    TextSource,
    read_query,
    starts_query,
)
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.token_reader import Cursor
from ctsql.planner.syntax.tokens.tokenizer import Token, Tokens, span_of

_JOIN_WORDS = ("NATURAL", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "OUTER")
_UNSUPPORTED = ("PIVOT", "UNPIVOT", "TABLESAMPLE", "MATCH_RECOGNIZE")
# Words that end a relation, so are no alias of it (Spark's strict non-reserved words, and ours).
_NO_ALIAS = (*_JOIN_WORDS, *_UNSUPPORTED, "JOIN", "ON", "USING", "LATERAL", "EXCEPT", "MINUS")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySource(FromItem):
    """A query in parentheses; with LATERAL it sees the relations in front of it."""

    query: QueryText


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSource:
    """Two relations joined; ``kind`` is "inner", "left", "right", "full", "semi" or "anti"."""

    kind: str
    left: "Source"
    right: "Source"
    span_tokens: Tokens
    on: Tokens = ()
    using: tuple[Token, ...] = ()
    is_natural: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSource(FromItem):
    """LATERAL VIEW [OUTER] generator(...) alias AS columns."""

    child: "Source"
    generator: Tokens
    is_outer: bool


Source = TableSource | QuerySource | TextSource | JoinSource | ViewSource


class _Alias(TypedDict, total=False):
    alias: str
    columns: tuple[str, ...]


class _Reader(Cursor):
    def refuse(self, code: str = "TEXT_NOT_READ") -> Refusal:
        rest = self.rest[:1] or self.tokens[-1:]
        return Refusal(code, span_of(rest))

    def inside(self) -> Tokens:
        """The tokens in the parentheses that open here."""
        stop = tk.closing(self.tokens, self.position)
        if self.upper() != "(" or stop >= len(self.tokens):
            raise self.refuse()
        tokens = self.tokens[self.position + 1 : stop]
        self.position = stop + 1
        return tokens

    def whole(self) -> Source:
        source = self.joins()
        while self.current is not None:
            if self.accept(","):
                right = self.joins()
                source = JoinSource(kind="inner", left=source, right=right, span_tokens=self.tokens)
            elif self.upper() == "LATERAL" and self.upper(1) == "VIEW":
                source = self.view(source)
            else:
                raise self.refuse("CLAUSE_UNSUPPORTED")
        return source

    def joins(self) -> Source:
        source = self.primary()
        while (words := self.join_words()) is not None:
            is_natural, kind = words
            right = self.primary()
            on = self.condition() if self.accept("ON") else ()
            using = self.inside() if not on and self.accept("USING") else ()
            source = JoinSource(
                kind=kind,
                left=source,
                right=right,
                on=on,
                using=tuple(t for t in using if t.is_name),
                is_natural=is_natural,
                span_tokens=self.tokens,
            )
        return source

    def join_words(self) -> tuple[bool, str] | None:
        count = 0
        while self.upper(count) in _JOIN_WORDS:
            count += 1
        if self.upper(count) != "JOIN":
            return None
        words = [token.upper for token in self.rest[:count]]
        self.position += count + 1
        kinds = [w.lower() for w in words if w in ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")]
        kind = kinds[-1] if kinds else "inner"
        return "NATURAL" in words, kind

    def condition(self) -> Tokens:
        begin = self.position
        self.position = len(self.tokens)
        for index, token in tk.at_depth_0(self.tokens, begin, brackets=True):
            is_call = tk.upper_at(self.tokens, index + 1) == "("
            ends = token.upper in (",", "JOIN", "LATERAL", *_UNSUPPORTED) or (
                token.upper in _JOIN_WORDS and not is_call
            )
            if ends and index > begin and self.tokens[index - 1].upper != ".":
                self.position = index
                break
        if self.position == begin:
            raise self.refuse()
        return self.tokens[begin : self.position]

    def primary(self) -> Source:
        is_lateral = self.accept("LATERAL")
        if self.upper() == "(":
            if starts_query(self.tokens, self.position) and self._is_query():
                query = read_query(self.inside())
                return QuerySource(query=query, is_lateral=is_lateral, **self.alias())
            inner = _Reader(self.inside()).whole()
            if self.alias() or is_lateral:
                raise self.refuse("CLAUSE_UNSUPPORTED")
            return inner
        begin = self.position
        if self.upper() == "VALUES":
            self._skip_values()
            return TextSource(tokens=self.tokens[begin : self.position], **self.alias())
        if not self.is_at_name:
            raise self.refuse()
        self.position += 1
        while self.upper() == "." and self.position + 1 < len(self.tokens):
            self.position += 2
        if self.upper() == "(":
            self.inside()
            text = self.tokens[begin : self.position]
            return TextSource(tokens=text, is_lateral=is_lateral, **self.alias())
        table = TableSource(name=self.tokens[begin : self.position], **self.alias())
        if self.upper() == "TABLESAMPLE":
            raise self.refuse("SAMPLE")
        return table

    def _is_query(self) -> bool:
        """``((SELECT 1) UNION (SELECT 2))`` is one; ``((SELECT 1) a JOIN b)`` is not."""
        stop = tk.closing(self.tokens, self.position)
        inside = self.tokens[self.position + 1 : stop]
        if inside[0].upper != "(":
            return True
        first = tk.closing(inside, 0)
        behind = tk.upper_at(inside, first + 1)
        return behind in ("", "UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET")

    def _skip_values(self) -> None:
        for index, token in tk.at_depth_0(self.tokens, self.position + 1):
            is_alias = token.is_name and self.tokens[index - 1].upper in (")", "")
            if is_alias or token.upper in ("AS", *_NO_ALIAS):
                self.position = index
                return
        self.position = len(self.tokens)

    def alias(self) -> _Alias:
        has_as = self.accept("AS")
        if not self.is_at_name or (not has_as and self.upper() in _NO_ALIAS):
            return {}
        alias: _Alias = {"alias": self.take().text}
        if self.upper() == "(":
            alias["columns"] = tuple(t.text for t in self.inside() if t.is_name)
        return alias

    def view(self, child: Source) -> ViewSource:
        self.accept("LATERAL", "VIEW")
        is_outer = self.accept("OUTER")
        begin = self.position
        self.position += 1
        self.inside()
        generator = self.tokens[begin : self.position]
        has_alias = self.is_at_name and self.upper() != "AS"
        alias = self.take().text if has_alias else None
        columns: list[str] = []
        if self.accept("AS") or self.is_at_name:
            columns.append(self.take().text)
            while self.accept(","):
                columns.append(self.take().text)
        return ViewSource(
            child=child, generator=generator, is_outer=is_outer, alias=alias, columns=tuple(columns)
        )


def read_source(tokens: Tokens) -> Source:
    """The relations of a FROM clause.

    Raises SAMPLE, CLAUSE_UNSUPPORTED, TEXT_NOT_READ as :class:`Refusal`.
    """
    return _Reader(tokens).whole()
