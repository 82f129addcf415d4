"""Cuts a FROM clause into relations and joins.

Source: the rules ``fromClause``, ``relation``, ``joinRelation``, ``lateralView`` of Spark's
SqlBaseParser.g4.
"""

from dataclasses import dataclass

from ctsql.planner.ivm.algebra.reasons import Refused
from ctsql.planner.ivm.parse.clauses import QueryText, read_query, starts_query
from ctsql.planner.syntax.tokens.tokenizer import (
    Token,
    Tokens,
    at_depth_0,
    closing,
    span_of,
    upper_at,
    words_are,
)

_JOIN_WORDS = ("NATURAL", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "OUTER")
_UNSUPPORTED = ("PIVOT", "UNPIVOT", "TABLESAMPLE", "MATCH_RECOGNIZE")
# Words that end a relation, so are no alias of it (Spark's strict non-reserved words, and ours).
_NO_ALIAS = (*_JOIN_WORDS, *_UNSUPPORTED, "JOIN", "ON", "USING", "LATERAL", "EXCEPT", "MINUS")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A name, maybe of a common table expression."""

    name: Tokens
    alias: str | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySource:
    """A query in parentheses; with LATERAL it sees the relations in front of it."""

    query: QueryText
    alias: str | None
    columns: tuple[str, ...]
    is_lateral: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """VALUES or a table function, kept as text."""

    tokens: Tokens
    alias: str | None
    columns: tuple[str, ...]
    is_lateral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSource:
    """Two relations joined; ``kind`` is "inner", "left", "right", "full", "semi" or "anti"."""

    kind: str
    left: "Source"
    right: "Source"
    on: Tokens
    using: tuple[Token, ...]
    is_natural: bool
    span_tokens: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSource:
    """LATERAL VIEW [OUTER] generator(...) alias AS columns."""

    child: "Source"
    generator: Tokens
    is_outer: bool
    alias: str | None
    columns: tuple[str, ...]


Source = TableSource | QuerySource | TextSource | JoinSource | ViewSource


class _Reader:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.at = 0

    def word(self, ahead: int = 0) -> str:
        return upper_at(self.tokens, self.at + ahead)

    def accept(self, *words: str) -> bool:
        if words_are(self.tokens, self.at, *words):
            self.at += len(words)
            return True
        return False

    def refuse(self, code: str = "TEXT_NOT_READ") -> Refused:
        rest = self.tokens[self.at : self.at + 1] or self.tokens[-1:]
        return Refused(code, span_of(rest))

    def inside(self) -> Tokens:
        """The tokens in the parentheses that open here."""
        stop = closing(self.tokens, self.at)
        if self.word() != "(" or stop >= len(self.tokens):
            raise self.refuse()
        found = self.tokens[self.at + 1 : stop]
        self.at = stop + 1
        return found

    def whole(self) -> Source:
        source = self.relation()
        while self.at < len(self.tokens):
            if self.accept(","):
                right = self.relation()
                source = self._join("inner", source, right)
            elif self.word() == "LATERAL" and self.word(1) == "VIEW":
                source = self.view(source)
            else:
                raise self.refuse("CLAUSE_UNSUPPORTED")
        return source

    def _join(self, kind: str, left: Source, right: Source) -> JoinSource:
        return JoinSource(
            kind=kind,
            left=left,
            right=right,
            on=(),
            using=(),
            is_natural=False,
            span_tokens=self.tokens,
        )

    def relation(self) -> Source:
        source = self.primary()
        while True:
            kind = self.join_words()
            if kind is None:
                return source
            is_natural, name = kind
            right = self.primary()
            on: Tokens = ()
            using: tuple[Token, ...] = ()
            if self.accept("ON"):
                on = self.condition()
            elif self.accept("USING"):
                using = tuple(t for t in self.inside() if t.is_name)
            source = JoinSource(
                kind=name,
                left=source,
                right=right,
                on=on,
                using=using,
                is_natural=is_natural,
                span_tokens=self.tokens,
            )

    def join_words(self) -> tuple[bool, str] | None:
        words = []
        place = self.at
        while place < len(self.tokens) and self.tokens[place].upper in _JOIN_WORDS:
            words.append(self.tokens[place].upper)
            place += 1
        if place >= len(self.tokens) or self.tokens[place].upper != "JOIN":
            return None
        self.at = place + 1
        kinds = [w.lower() for w in words if w in ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")]
        kind = kinds[-1] if kinds else "inner"
        return "NATURAL" in words, kind

    def condition(self) -> Tokens:
        begin = self.at
        for index, token in at_depth_0(self.tokens, begin, brackets=True):
            is_call = upper_at(self.tokens, index + 1) == "("
            ends = token.upper in (",", "JOIN", "LATERAL", *_UNSUPPORTED) or (
                token.upper in _JOIN_WORDS and not is_call
            )
            if ends and index > begin and self.tokens[index - 1].upper != ".":
                self.at = index
                break
        else:
            self.at = len(self.tokens)
        if self.at == begin:
            raise self.refuse()
        return self.tokens[begin : self.at]

    def primary(self) -> Source:
        is_lateral = self.accept("LATERAL")
        if self.word() == "(":
            if starts_query(self.tokens, self.at) and self._is_query():
                query = read_query(self.inside())
                alias, columns = self.alias()
                return QuerySource(query=query, alias=alias, columns=columns, is_lateral=is_lateral)
            inner = _Reader(self.inside()).whole()
            alias, _ = self.alias()
            if alias is not None or is_lateral:
                raise self.refuse("CLAUSE_UNSUPPORTED")
            return inner
        begin = self.at
        if self.word() == "VALUES":
            self._skip_values()
            text = self.tokens[begin : self.at]
            alias, columns = self.alias()
            return TextSource(tokens=text, alias=alias, columns=columns)
        if self.at >= len(self.tokens) or not self.tokens[self.at].is_name:
            raise self.refuse()
        self.at += 1
        while self.word() == "." and self.at + 1 < len(self.tokens):
            self.at += 2
        if self.word() == "(":
            self.inside()
            text = self.tokens[begin : self.at]
            alias, columns = self.alias()
            return TextSource(tokens=text, alias=alias, columns=columns, is_lateral=is_lateral)
        if self.word() == "TABLESAMPLE":
            raise self.refuse("SAMPLE")
        name = self.tokens[begin : self.at]
        alias, columns = self.alias()
        if self.word() == "TABLESAMPLE":
            raise self.refuse("SAMPLE")
        return TableSource(name=name, alias=alias, columns=columns)

    def _is_query(self) -> bool:
        """``((SELECT 1) UNION (SELECT 2))`` is one; ``((SELECT 1) a JOIN b)`` is not."""
        stop = closing(self.tokens, self.at)
        inside = self.tokens[self.at + 1 : stop]
        if inside[0].upper != "(":
            return True
        first = closing(inside, 0)
        behind = upper_at(inside, first + 1)
        return behind in ("", "UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET")

    def _skip_values(self) -> None:
        self.at += 1
        depth = 0
        while self.at < len(self.tokens):
            symbol = self.word()
            if depth == 0 and (symbol == "AS" or symbol in _NO_ALIAS):
                return
            before = self.tokens[self.at - 1]
            is_alias = self.tokens[self.at].is_name and (before.upper == ")" or not before.upper)
            if depth == 0 and is_alias and before.upper != "VALUES":
                return
            depth += {"(": 1, ")": -1}.get(symbol, 0)
            self.at += 1

    def alias(self) -> tuple[str | None, tuple[str, ...]]:
        has_as = self.accept("AS")
        if self.at >= len(self.tokens) or not self.tokens[self.at].is_name:
            return None, ()
        if not has_as and self.word() in _NO_ALIAS:
            return None, ()
        name = self.tokens[self.at].text
        self.at += 1
        columns: tuple[str, ...] = ()
        if self.word() == "(":
            columns = tuple(t.text for t in self.inside() if t.is_name)
        return name, columns

    def view(self, child: Source) -> ViewSource:
        self.accept("LATERAL", "VIEW")
        is_outer = self.accept("OUTER")
        begin = self.at
        self.at += 1
        self.inside()
        generator = self.tokens[begin : self.at]
        alias: str | None = None
        if self.at < len(self.tokens) and self.tokens[self.at].is_name and self.word() != "AS":
            alias = self.tokens[self.at].text
            self.at += 1
        columns: list[str] = []
        if self.accept("AS") or (self.at < len(self.tokens) and self.tokens[self.at].is_name):
            columns.append(self.tokens[self.at].text)
            self.at += 1
            while self.accept(","):
                columns.append(self.tokens[self.at].text)
                self.at += 1
        return ViewSource(
            child=child,
            generator=generator,
            is_outer=is_outer,
            alias=alias,
            columns=tuple(columns),
        )


def read_source(tokens: Tokens) -> Source:
    """The relations of a FROM clause.

    Raises:
        Refused: SAMPLE, CLAUSE_UNSUPPORTED or TEXT_NOT_READ.
    """
    return _Reader(tokens).whole()
