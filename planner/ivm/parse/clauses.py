"""Cuts the tokens of a query into its clauses, relations and joins, without reading expressions.

Every piece keeps the user's tokens. sqlglot's tree is not used, because it lacks the positions of
clauses.
Source: the rules ``query``, ``queryTerm``, ``querySpecification``, ``fromClause``, ``relation``,
``joinRelation`` and ``lateralView`` of Spark's SqlBaseParser.g4.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, TypedDict

from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.token_reader import TokenCursor
from ctsql.planner.syntax.tokens.tokenizer import Token, Tokens, span_of

_UNSUPPORTED = ("SORT BY", "CLUSTER BY", "DISTRIBUTE BY")
_TAIL = ("ORDER BY", "LIMIT", "OFFSET", *_UNSUPPORTED)
_CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "WINDOW", *_TAIL)
_SET_OPERATORS = {"UNION": "union", "INTERSECT": "intersect", "EXCEPT": "except", "MINUS": "except"}
_JOIN_WORDS = ("NATURAL", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "OUTER")
_NO_RELATIONS = ("PIVOT", "UNPIVOT", "TABLESAMPLE", "MATCH_RECOGNIZE")
# Words that end a relation, so are no alias of it (Spark's strict non-reserved words, and ours).
_NO_ALIAS = (*_JOIN_WORDS, *_NO_RELATIONS, "JOIN", "ON", "USING", "LATERAL", "EXCEPT", "MINUS")


@dataclass(frozen=True, slots=True, kw_only=True)
class FromItem:
    """An item that may have an alias with column names, and LATERAL in front."""

    alias: str | None = None
    columns: tuple[str, ...] = ()
    is_lateral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource(FromItem):
    """The name of a relation or a common table expression, also in ``TABLE t``."""

    name: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource(FromItem):
    """VALUES or a table function, kept as text."""

    tokens: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class CteText:
    """``name (columns) AS (query)``."""

    name: Token
    columns: tuple[str, ...]
    query: "QueryText"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectText:
    """One SELECT; a missing clause is empty."""

    tokens: Tokens
    is_distinct: bool
    items: tuple[Tokens, ...]
    source: Tokens
    where: Tokens
    group: Tokens
    having: Tokens
    qualify: Tokens
    windows: dict[str, Tokens]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetText:
    """Two queries with UNION, INTERSECT or EXCEPT between them."""

    operator: str
    is_all: bool
    left: "BodyText"
    right: "BodyText"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryText:
    """A query: its body and the clauses around it."""

    ctes: tuple[CteText, ...]
    body: "BodyText"
    order: tuple[Tokens, ...]
    limit: Tokens
    offset: Tokens


BodyText = SelectText | TextSource | TableSource | SetText | QueryText


def starts_query(tokens: Tokens, index: int) -> bool:
    """Whether a query begins inside the parenthesis at ``index``."""
    while index < len(tokens) and tokens[index].upper == "(":
        index += 1
        if index < len(tokens) and tokens[index].upper in ("SELECT", "WITH", "VALUES", "TABLE"):
            return True
    return False


def read_query(tokens: Tokens) -> QueryText:
    """A query's clauses.

    Raises RECURSIVE_QUERY, CLAUSE_UNSUPPORTED, TEXT_NOT_READ as :class:`Refusal`.
    """
    if not tokens:
        raise Refusal("TEXT_NOT_READ")
    rest, ctes = _with(tokens) if tokens[0].upper == "WITH" else (tokens, ())
    segments, operators = _segments(rest)
    clauses = _clauses(segments[-1])
    first = min((begin for name, begin, _ in clauses if name in _TAIL), default=len(segments[-1]))
    windows = _windows(clauses)
    tail = {name: content for name, _, content in clauses}
    bodies = [_body(s, {}) for s in segments[:-1]] + [_body(segments[-1][:first], windows)]
    for name in _UNSUPPORTED:
        if name in tail:
            raise Refusal("CLAUSE_UNSUPPORTED", span_of(segments[-1]))
    order = tail.get("ORDER BY", ())
    return QueryText(
        ctes=ctes,
        body=_fold_bodies(bodies, operators),
        order=tuple(tk.cut_at_commas(order)) if order else (),
        limit=tail.get("LIMIT", ()),
        offset=tail.get("OFFSET", ()),
    )


def _with(tokens: Tokens) -> tuple[Tokens, tuple[CteText, ...]]:
    if tk.words_are(tokens, 1, "RECURSIVE"):
        raise Refusal("RECURSIVE_QUERY", tokens[1].span)
    cursor = TokenCursor(tokens, start=1)
    ctes = []
    while True:
        name = cursor.take()
        columns: tuple[str, ...] = ()
        if cursor.at("("):
            columns = tuple(t.text for t in cursor.group() if t.is_name)
        cursor.accept("AS")
        if not cursor.at("(") or tk.closing(tokens, cursor.position) >= len(tokens):
            raise Refusal("TEXT_NOT_READ", name.span)
        ctes.append(CteText(name=name, columns=columns, query=read_query(cursor.group())))
        if not cursor.accept(","):
            return cursor.rest, tuple(ctes)


def _segments(tokens: Tokens) -> tuple[list[Tokens], list[tuple[str, bool]]]:
    """The operands of set operators at the top, and the operators between them."""
    segments: list[Tokens] = []
    operators: list[tuple[str, bool]] = []
    begin = 0
    for index, token in tk.at_depth_0(tokens, brackets=True):
        if token.upper not in _SET_OPERATORS or index <= begin:
            continue
        if tokens[index - 1].upper in ("*", ".", "AS", ","):
            continue  # * EXCEPT (c), or a name
        behind = index + 1
        is_all = tk.words_are(tokens, behind, "ALL")
        if is_all or tk.words_are(tokens, behind, "DISTINCT"):
            behind += 1
        if tk.words_are(tokens, behind, "BY", "NAME"):
            raise Refusal("CLAUSE_UNSUPPORTED", token.span)
        segments.append(tokens[begin:index])
        operators.append((_SET_OPERATORS[token.upper], is_all))
        begin = behind
    segments.append(tokens[begin:])
    if any(not segment for segment in segments):
        raise Refusal("TEXT_NOT_READ", span_of(tokens) if tokens else None)
    return segments, operators


def _fold_bodies(bodies: list[BodyText], operators: list[tuple[str, bool]]) -> BodyText:
    """Combine from left to right; INTERSECT binds tighter."""
    terms = [bodies[0]]
    looser: list[tuple[str, bool]] = []
    for (name, is_all), body in zip(operators, bodies[1:], strict=True):
        if name == "intersect":
            terms[-1] = SetText(operator=name, is_all=is_all, left=terms[-1], right=body)
        else:
            terms.append(body)
            looser.append((name, is_all))
    result = terms[0]
    for (name, is_all), body in zip(looser, terms[1:], strict=True):
        result = SetText(operator=name, is_all=is_all, left=result, right=body)
    return result


def _clauses(tokens: Tokens) -> list[tuple[str, int, Tokens]]:
    """Name, begin and content of each clause after the select list."""
    marks: list[tuple[str, int]] = []
    for index, _ in tk.at_depth_0(tokens, brackets=True):
        for name in _CLAUSES:
            words = name.split()
            if tk.words_are(tokens, index, *words) and _is_clause(tokens, index, words[0]):
                marks.append((name, index))
    stops = [index for _, index in marks[1:]] + [len(tokens)] * bool(marks)
    return [
        (name, begin, tokens[begin + len(name.split()) : stop])
        for (name, begin), stop in zip(marks, stops, strict=True)
    ]


def _is_clause(tokens: Tokens, index: int, word: str) -> bool:
    before = tk.upper_at(tokens, index - 1)
    if before in (".", "AS") or (index and tokens[index].text.startswith("`")):
        return False
    if word == "FROM" and before == "DISTINCT" and tokens[index - 2].upper in ("IS", "NOT"):
        return False
    if word == "WINDOW":
        return tk.words_are(tokens, index + 2, "AS", "(")
    return True


def _windows(clauses: list[tuple[str, int, Tokens]]) -> dict[str, Tokens]:
    lists = (tk.cut_at_commas(content) for name, _, content in clauses if name == "WINDOW")
    return {group[0].text.lower(): group[3:-1] for groups in lists for group in groups}


def _body(tokens: Tokens, windows: dict[str, Tokens]) -> BodyText:
    if not tokens:
        raise Refusal("TEXT_NOT_READ")
    first = tokens[0].upper
    inside = tk.in_parentheses(tokens)
    if inside is not None:
        return read_query(inside)
    if first == "VALUES":
        return TextSource(tokens=tokens)
    if first == "TABLE":
        return TableSource(name=tokens[1:])
    if first != "SELECT":
        raise Refusal("CLAUSE_UNSUPPORTED", tokens[0].span)
    clauses = _clauses(tokens)
    parts = {name: content for name, _, content in clauses}
    if len(parts) != len(clauses) or any(name in _TAIL for name in parts):
        raise Refusal("TEXT_NOT_READ", span_of(tokens))
    select_list = _without_hint(tokens[1 : clauses[0][1] if clauses else len(tokens)])
    is_distinct = tk.words_are(select_list, 0, "DISTINCT")
    if is_distinct or tk.words_are(select_list, 0, "ALL"):
        select_list = select_list[1:]
    if tk.words_are(select_list, 0, "ON", "(") and is_distinct:
        raise Refusal("CLAUSE_UNSUPPORTED", select_list[0].span)
    return SelectText(
        tokens=tokens,
        is_distinct=is_distinct,
        items=tuple(tk.cut_at_commas(select_list)),
        source=parts.get("FROM", ()),
        where=parts.get("WHERE", ()),
        group=parts.get("GROUP BY", ()),
        having=parts.get("HAVING", ()),
        qualify=parts.get("QUALIFY", ()),
        windows={**_windows(clauses), **windows},
    )


def _without_hint(tokens: Tokens) -> Tokens:
    """Remove hints: they change how Spark runs a query, not its result."""
    if tokens and tokens[0].text.startswith("/*+"):
        for index, token in enumerate(tokens):
            if token.text.endswith("*/"):
                return tokens[index + 1 :]
        raise Refusal("TEXT_NOT_READ", tokens[0].span)
    return tokens


# ---- FROM


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySource(FromItem):
    """A query in parentheses; with LATERAL it sees the relations in front of it."""

    query: QueryText


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSource:
    """Two relations joined; ``kind`` is "inner", "left", "right", "full", "semi" or "anti"."""

    kind: str
    left: "FromSource"
    right: "FromSource"
    span_tokens: Tokens
    on: Tokens = ()
    using: tuple[Token, ...] = ()
    is_natural: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSource(FromItem):
    """LATERAL VIEW [OUTER] generator(...) alias AS columns."""

    child: "FromSource"
    generator: Tokens
    is_outer: bool


FromSource = TableSource | QuerySource | TextSource | JoinSource | ViewSource


class _Alias(TypedDict, total=False):
    alias: str
    columns: tuple[str, ...]


class _FromReader(TokenCursor):
    def refuse(self, code: str = "TEXT_NOT_READ") -> Refusal:
        rest = self.rest[:1] or self.tokens[-1:]
        return Refusal(code, span_of(rest))

    def fail(self, expected: str, *, hint: str = "", words: Iterable[str] = ()) -> NoReturn:
        raise self.refuse()

    def whole(self) -> FromSource:
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

    def joins(self) -> FromSource:
        source = self.primary()
        while (words := self.join_words()) is not None:
            is_natural, kind = words
            right = self.primary()
            on = self.condition() if self.accept("ON") else ()
            using = self.group() if not on and self.accept("USING") else ()
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
            ends = token.upper in (",", "JOIN", "LATERAL", *_NO_RELATIONS) or (
                token.upper in _JOIN_WORDS and not is_call
            )
            if ends and index > begin and self.tokens[index - 1].upper != ".":
                self.position = index
                break
        if self.position == begin:
            raise self.refuse()
        return self.tokens[begin : self.position]

    def primary(self) -> FromSource:
        is_lateral = self.accept("LATERAL")
        if self.upper() == "(":
            if starts_query(self.tokens, self.position) and self._is_query():
                query = read_query(self.group())
                return QuerySource(query=query, is_lateral=is_lateral, **self.alias())
            inner = _FromReader(self.group()).whole()
            if self.alias() or is_lateral:
                raise self.refuse("CLAUSE_UNSUPPORTED")
            return inner
        begin = self.position
        if self.upper() == "VALUES":
            self._skip_values()
            return TextSource(tokens=self.tokens[begin : self.position], **self.alias())
        self.name("a relation")
        while self.upper() == "." and self.position + 1 < len(self.tokens):
            self.position += 2
        if self.upper() == "(":
            self.group()
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
            alias["columns"] = tuple(t.text for t in self.group() if t.is_name)
        return alias

    def view(self, child: FromSource) -> ViewSource:
        self.accept("LATERAL", "VIEW")
        is_outer = self.accept("OUTER")
        begin = self.position
        self.position += 1
        self.group()
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


def read_source(tokens: Tokens) -> FromSource:
    """The relations of a FROM clause.

    Raises SAMPLE, CLAUSE_UNSUPPORTED, TEXT_NOT_READ as :class:`Refusal`.
    """
    return _FromReader(tokens).whole()
