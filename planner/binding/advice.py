"""Warns about valid definitions that probably do not do what their author means.

Each warning states the effect, and what to type instead. The checks read the tokens of the
definition.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ctsql.catalog.schemas import Column, find
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.tokenizer import Tokens, tokenise, word_set

ColumnsOfRef = Callable[[st.RelationRef], Sequence[Column]]
"""The columns of a relation of the definition; none where they are not known."""

_ANY_ROW = word_set("FIRST FIRST_VALUE LAST LAST_VALUE ANY_VALUE COLLECT_LIST ARRAY_AGG LISTAGG")
_ORDERING = ("OVER", "WITHIN")


@dataclass(frozen=True, slots=True)
class Advice:
    """A finding: what happens, what to type instead, and where."""

    message: str
    hint: str
    span: Span

    def __str__(self) -> str:
        return f"{self.span.place()}: {self.message}\nHINT: {self.hint}"


def advise(statement: st.Statement, columns_of: ColumnsOfRef) -> Iterator[Advice]:
    """Advice for the author of a CREATE or of a task's new body, in the order of the text."""
    match statement:
        case st.CreateContinualTask() | st.ReplaceBody():
            for part in statement.body:
                yield from _on_text(tokenise(part.span), st.texts_of(part), columns_of)
            yield from _on_keys(statement.body, columns_of)
        case st.CreateMaterializedView():
            query = statement.query
            yield from _on_text(tokenise(query.span), [query], columns_of)


def _on_text(
    tokens: Tokens, texts: Sequence[st.SqlText], columns_of: ColumnsOfRef
) -> Iterator[Advice]:
    for index, token in enumerate(tokens):
        if tk.words_are(tokens, index, "NOT", "IN", "(", "SELECT"):
            inner = tokens[index + 3 : tk.closing(tokens, index + 2)]
            if not _is_filled(inner, texts, columns_of):
                name = tokens[index - 1].text if index else "k"
                yield Advice(
                    "NOT IN matches no row if its query returns a NULL",
                    "Type NOT EXISTS (SELECT 1 FROM ... WHERE "
                    f"... <=> {name}), or add WHERE ... IS NOT NULL to that query.",
                    token.span,
                )
        if token.upper == "LIMIT" and not _is_ordered(tokens, index):
            yield Advice(
                "LIMIT without ORDER BY returns arbitrary rows",
                "Type in front of it ORDER BY with columns that identify a row.",
                token.span,
            )
        if token.upper in _ANY_ROW and tk.upper_at(tokens, index + 1) == "(":
            behind = tk.upper_at(tokens, tk.closing(tokens, index + 1) + 1)
            is_sorted = tk.words_are(tokens, index - 2, "SORT_ARRAY", "(")
            is_name = tk.upper_at(tokens, index - 1) == "."
            if not (is_sorted or is_name or behind in _ORDERING):
                yield Advice(
                    f"{token.upper} depends on the order of rows, which is arbitrary",
                    "Type max_by(value, order), or sort_array(collect_list(value)).",
                    token.span,
                )


def _is_ordered(tokens: Tokens, index: int) -> bool:
    """Whether ORDER BY stands in front of an index, at the same depth."""
    before = tk.at_depth_0(tokens[:index], tk.opening(tokens, index) + 1)
    return any(token.upper == "ORDER" for _, token in before)


def _is_filled(query: Tokens, texts: Sequence[st.SqlText], columns_of: ColumnsOfRef) -> bool:
    """Whether a query of one column, from SELECT on, surely gives no NULL."""
    if any(tk.words_are(query, i, "IS", "NOT", "NULL") for i in range(len(query))):
        return True
    start = 2 if tk.upper_at(query, 1) == "DISTINCT" else 1
    chain = tk.name_chain(query, start) if len(query) > start else []
    behind = start + 2 * len(chain) - 1
    if not chain or tk.upper_at(query, behind) != "FROM":
        return False
    place = query[behind + 1].start if behind + 1 < len(query) else -1
    ref = next((r for text in texts for r in text.relations if r.span.start == place), None)
    column = None if ref is None else find(columns_of(ref), chain[-1].text)
    return column is not None and not column.nullable


def _on_keys(body: Sequence[st.BodyStatement], columns_of: ColumnsOfRef) -> Iterator[Advice]:
    """Rows that are replaced by ``DELETE ... WHERE k IN (...)`` and ``INSERT``."""
    targets = {s.target.span.text for s in body if isinstance(s, st.InsertStatement)}
    for part in body:
        if not isinstance(part, st.ChangeStatement) or part.assignments or part.where is None:
            continue
        tokens = tokenise(part.where.span)
        keys = _looked_up(tokens)
        key_columns = {name: find(columns_of(part.target), name) for name in keys}
        nullable = [name for name, c in key_columns.items() if c is not None and c.nullable]
        if nullable and part.target.span.text in targets:
            target = part.target.span.text
            same = " AND ".join(f"i.{name} <=> {target}.{name}" for name in keys)
            yield Advice(
                f"a row whose {' or '.join(nullable)} is NULL is never deleted here, "
                "so each INSERT adds one more",
                f"Declare {' and '.join(nullable)} NOT NULL in the column list, or type: "
                f"DELETE FROM {target} WHERE EXISTS (SELECT 1 FROM <input> i WHERE {same})",
                tokens[0].span,
            )


def _looked_up(tokens: Tokens) -> list[str]:
    """The columns of ``k IN (SELECT ...)`` or ``(a, b) IN (SELECT ...)``; else none."""
    group = tk.closing(tokens, 0) + 1 if tk.upper_at(tokens, 0) == "(" else 0
    cut = group or 2 * len(tk.name_chain(tokens, 0)) - 1
    if not tk.words_are(tokens, cut, "IN", "(", "SELECT"):
        return []
    operand = tokens[1 : cut - 1] if group else tokens[:cut]
    return [part[-1].text for part in tk.cut_at_commas(operand) if part and part[-1].is_name]
