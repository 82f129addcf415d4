"""Reads the headers of CREATE CONTINUAL TASK and CREATE MATERIALIZED VIEW with a lark grammar.

lark is fed the tokens that everything else here reads, one by one, so comments, quotes and
escapes are understood in one way only, and so that we know what it would have taken instead.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NoReturn

from lark import Lark, Token as LarkToken, Tree
from lark.exceptions import UnexpectedToken

from ctsql.catalog.errors import invalid, not_supported
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import Edit, RelationRef, SqlText, TaskInput
from ctsql.planner.syntax.statements.refusals import refusal
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.name_scopes import source_of
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import found_text, relation_ref, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens, span_of, word_set

_KEYWORDS = word_set("""
    CREATE OR REPLACE CONTINUAL TASK MATERIALIZED VIEW IF NOT EXISTS ON INPUT OUTPUTS AS WITH
    COMMENT WHERE REPLACEMENT
""")
_BEHIND_ALIAS = ("AS", "WHERE", "WITH", ",")
_SYMBOLS = {"(": "LPAR", ")": "RPAR", ",": "COMMA", ".": "DOT"}
_KINDS = {Kind.STRING: "STRING", Kind.NUMBER: "NUMBER", Kind.SYMBOL: "OP"}
_SHOWN = {"LPAR": '"("', "RPAR": '")"', "COMMA": '","', "STRING": "a string", "WORD": "a name"}
_INPUT_HINT = (
    "Type: CREATE CONTINUAL TASK {name} ON INPUT <table> AS (INSERT INTO {name} SELECT ...)"
)
_LATER = {
    ("FROM", "TRANSFORM"): "FROM TRANSFORM",
    ("FROM", "RETAIN"): "FROM RETAIN",
    ("REFRESH",): "REFRESH outside of WITH (...)",
}
_CLAUSES_REFUSED = ("SCHEDULE", "PARTITIONED BY", "CLUSTER BY", "TBLPROPERTIES", "IN CLUSTER")


@dataclass(frozen=True, slots=True)
class Header:
    """The parts of a header; lists are given as the tokens between their parentheses.

    Attributes:
        columns_span: the column list with its parentheses, or OUTPUTS with its list.
        options: one entry for each WITH (...); options_span: the whole of the first.
        inputs: a task's inputs; a view has none, and a replacement may leave them out.
        outputs: of a task with OUTPUTS each output's name and its columns.
        stop: the index of the first token behind AS.
    """

    target: RelationRef
    if_not_exists: bool
    columns: Tokens | None
    columns_span: Span | None
    options: tuple[Tokens, ...]
    options_span: Span | None
    inputs: tuple[TaskInput, ...]
    outputs: tuple[tuple[RelationRef, Tokens], ...]
    comment: str | None
    stop: int


@cache
def _grammar() -> Lark:
    text = (
        files("ctsql.planner.syntax.statements").joinpath("header.lark").read_text(encoding="utf-8")
    )
    return Lark(text, parser="lalr", lexer="basic")


def read_header(tokens: Tokens, *, task: bool) -> Header:
    """Read a header from CREATE on, of a continual task or else of a materialized view.

    Raises SYNTAX_ERROR, NOT_SUPPORTED.
    """
    words = (i for i, t in tk.at_depth_0(tokens) if t.upper == "AS" and tokens[i - 1].upper != ".")
    stop = next((i + 1 for i in words if not (task and _names_input(tokens, i))), len(tokens))
    parsing = _grammar().parse_interactive("")
    for index, token in enumerate(tokens[:stop]):
        terminal = _terminal(token)
        if terminal == "AS" and index + 1 < stop:
            terminal = "AS_NAME"
        lark_token = LarkToken(terminal, token.span.text, start_pos=index)
        try:
            parsing.feed_token(lark_token)
        except UnexpectedToken as cause:
            _refuse(tokens, index, set(cause.accepts or cause.expected), task=task, cause=cause)
    if tokens[stop - 1].upper != "AS":
        terminals = set(parsing.accepts())  # type: ignore[no-untyped-call]
        _refuse(tokens, len(tokens), terminals, task=task, cause=None)
    tree: Tree[LarkToken] = parsing.feed_eof()  # type: ignore[no-untyped-call]
    return _header(tree, tokens, stop)


def _names_input(tokens: Tokens, index: int) -> bool:
    """Whether the word AS at an index stands in front of an alias."""
    behind = tokens[index + 1 : index + 3]
    return len(behind) == 2 and behind[0].is_name and behind[1].upper in _BEHIND_ALIAS


def _terminal(token: Token) -> str:
    if token.upper in _KEYWORDS:
        return token.upper
    if token.is_name:
        return "WORD"
    return _SYMBOLS.get(token.upper, _KINDS.get(token.kind, "OP"))


def _header(tree: Tree[LarkToken], tokens: Tokens, stop: int) -> Header:
    statement = tree.children[0]
    assert isinstance(statement, Tree)
    parts: dict[str, list[Tree[LarkToken]]] = {}
    for child in statement.children:
        if isinstance(child, Tree):
            parts.setdefault(str(child.data), []).append(child)
    inputs = (source for clause in parts.get("input", []) for source in clause.children)
    outputs = (output for clause in parts.get("outputs", []) for output in clause.children)
    options = parts.get("options", [])
    lists = [*parts.get("columns", []), *parts.get("outputs", [])]
    comments = [clause.children[1] for clause in parts.get("comment", [])]
    if len(comments) > 1 and isinstance(comments[1], LarkToken):
        raise syntax_error(_token(comments[1], tokens).span, "COMMENT is given twice")
    comment = comments[0] if comments else None
    return Header(
        target=_name(parts["name"][0], tokens),
        if_not_exists="if_not_exists" in parts,
        columns=_between(parts["columns"][0], tokens) if "columns" in parts else None,
        columns_span=span_of(_leaves(lists[0], tokens)) if lists else None,
        options=tuple(_between(clause, tokens) for clause in options),
        options_span=span_of(_leaves(options[0], tokens)) if options else None,
        inputs=tuple(_input(source, tokens) for source in inputs if isinstance(source, Tree)),
        outputs=tuple(_output(output, tokens) for output in outputs if isinstance(output, Tree)),
        comment=_token(comment, tokens).text if isinstance(comment, LarkToken) else None,
        stop=stop,
    )


def _token(leaf: LarkToken, tokens: Tokens) -> Token:
    assert leaf.start_pos is not None
    return tokens[leaf.start_pos]


def _leaves(tree: Tree[LarkToken], tokens: Tokens) -> list[Token]:
    return [_token(t, tokens) for t in tree.scan_values(lambda v: isinstance(v, LarkToken))]


def _name(tree: Tree[LarkToken], tokens: Tokens) -> RelationRef:
    parts = [token for token in _leaves(tree, tokens) if token.is_name]
    return relation_ref(parts, aliased=True)


def _input(tree: Tree[LarkToken], tokens: Tokens) -> TaskInput:
    parts = {
        str(part.data): _leaves(part, tokens) for part in tree.children if isinstance(part, Tree)
    }
    alias = parts["alias"][-1] if "alias" in parts else None
    names = [token for token in parts["name"] if token.is_name]
    condition = parts["where"][1:] if "where" in parts else None
    ref = relation_ref(names, aliased=condition is None or alias is not None)
    return TaskInput(
        ref=ref,
        alias=None if alias is None else alias.text,
        span=span_of(_leaves(tree, tokens)),
        rows=None if condition is None else _rows_where(ref, alias, condition),
    )


def _rows_where(ref: RelationRef, alias: Token | None, condition: Tokens) -> SqlText:
    """The query ``SELECT * FROM source [AS] alias WHERE condition`` of what was typed from FROM on.

    Raises INVALID_STATEMENT if the condition looks at anything but a row's own columns.
    """
    source = source_of(ref, None if alias is None else alias.text)
    text = analyse(span_of(condition), form="predicate", tokens=condition, outer=[(source,)])
    other = [ref.span for ref in text.relations] + [call.span for call in text.clocks]
    other += [call.span for call in text.nondeterministic] + list(text.parameters)
    if other:
        message = "the condition behind ON INPUT may look at the columns of the input only"
        detail = "It says which changes the task is run for, so it must not depend on the time."
        hint = "Put such a condition into the statements of the body."
        raise invalid(other[0], message, detail, hint)
    start = ref.span.start
    select = Edit(span=ref.span.front, text="SELECT * FROM ")
    return SqlText(
        span=Span(ref.span.source, start, text.span.stop),
        relations=(ref,),
        edits=(select, *text.edits),
        names=text.names,
    )


def _output(tree: Tree[LarkToken], tokens: Tokens) -> tuple[RelationRef, Tokens]:
    name, columns = (part for part in tree.children if isinstance(part, Tree))
    return _name(name, tokens), _between(columns, tokens)


def _between(tree: Tree[LarkToken], tokens: Tokens) -> Tokens:
    """Return the tokens inside the outer parentheses of a clause."""
    inside = _leaves(tree, tokens)
    opening = next(i for i, token in enumerate(inside) if token.upper == "(")
    return inside[opening + 1 : -1]


def _refuse(
    tokens: Tokens, index: int, terminals: set[str], *, task: bool, cause: Exception | None
) -> NoReturn:
    token = tokens[index] if index < len(tokens) else None
    place = token.span if token else tk.end_of(tokens)
    for words, what in _LATER.items():
        if tk.words_are(tokens, index, *words):
            hint = "Put it in WITH (...)." if words == ("REFRESH",) else ""
            raise not_supported(place, what, hint=hint)
    for clause in _CLAUSES_REFUSED:
        if tk.words_are(tokens, index, *clause.split()):
            raise refusal(place, clause)
    if token is not None and token.upper == "WITH" and tokens[index - 1].upper == ")":
        raise syntax_error(place, 'found a second "WITH", expected "ON INPUT" or "AS"')
    if task and "ON" in terminals and (token is None or token.upper in ("AS", "INPUT")):
        name = _target_text(tokens)
        message = "ON INPUT is missing"
        raise syntax_error(place, message, hint=_INPUT_HINT.format(name=name), cause=cause)
    if terminals == {"LPAR"} and tokens[index - 1].upper not in ("WITH", "OUTPUTS"):
        name = tokens[index - 1].span.text
        hint = f"Write its columns behind the name: {name} (k INT, ...)"
        message = f"found {found_text(token)}, expected the columns of the output"
        raise syntax_error(place, message, hint=hint, cause=cause)
    if "WORD" in terminals:
        choices = ["a name"]
    else:
        choices = [
            _SHOWN.get(a, f'"{a}"') for a in sorted(terminals - {"DOT", "OP", "NUMBER", "AS_NAME"})
        ]
    choice_text = " or ".join(
        [", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices
    )
    message = f"found {found_text(token)}, expected {choice_text}"
    raise syntax_error(place, message, cause=cause)


def _target_text(tokens: Tokens) -> str:
    """The name being created, as typed, as far as a broken header shows it."""
    index = next((i + 1 for i, t in enumerate(tokens) if t.upper in ("TASK", "VIEW")), len(tokens))
    if tk.words_are(tokens, index, "IF", "NOT", "EXISTS"):
        index += 3
    return tokens[index].span.text if index < len(tokens) and tokens[index].is_name else "<name>"
