"""Binding of constraints, and the query of a view whose constraints leave rows out."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog import schemas
from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import Item, TaskOutput
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import PROPOSED, UNIQUE_
from ctsql.catalog.schemas import Column, quote_text
from ctsql.catalog.spans import Source
from ctsql.planner import nodes as lp
from ctsql.planner.binding.analyst import Analyst
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.syntax.tokens.tokenizer import Kind, tokenise, word_set

_LITERAL = re.compile(
    r"""(?<![rR])'(?:[^'\\]|\\.|'')*'|(?<![rR])"(?:[^"\\]|\\.|"")*\"""", re.DOTALL
)
QUARANTINE_REASON = ("constraint_name", "reason")
"""Columns of a view's quarantine after those of the view."""


def bind_constraint(
    constraint: st.ConstraintDef, own: Item, analyst: Analyst | None
) -> lp.Constraint:
    """Bind a constraint of an output's rows; raises UNKNOWN_COLUMN, and what Spark says."""
    heading = f'"{own.name}" has the columns'
    predicate = constraint.predicate
    columns = tuple(
        schemas.get(own.columns, name, span=constraint.span, heading=heading).name
        for name in constraint.columns
    )
    bound = lp.Constraint(
        object_id=own.id,
        name=constraint.name,
        action=constraint.action,
        predicate=None if predicate is None else lp.Query(sql=predicate, relations=(), columns=()),
        rule=constraint.rule,
        not_null=() if constraint.unique else columns,
        key=columns if constraint.unique else (),
        of=own.name if isinstance(own, TaskOutput) else None,
    )
    if analyst is not None and bound.predicate is not None:
        names = tuple(c.name for c in own.columns)
        rows = lp.SelfReference(object_id=own.id, name=own.name, columns=names)
        check = lp.Delete(of=rows, alias=PROPOSED, where=bound.predicate)
        analyst.check_predicate(check, own.columns)
    return bound


_COMPARED = word_set("""
    TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG DECIMAL DEC NUMERIC STRING VARCHAR CHAR
    CHARACTER BOOLEAN BINARY DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ
""")


def check_key(constraint: st.ConstraintDef, key: Sequence[Column]) -> None:
    """Refuse a key of values that may be equal and look different: NOT_SUPPORTED."""
    for column in key:
        kind = column.type.upper().split("(")[0].split("<")[0].split()[0]
        if kind not in _COMPARED or "collate" in column.type.lower():
            what = f"a key of type {column.type.upper()}"
            why = "Values of this type may be equal but not identical."
            hint = "Use columns of whole numbers, DECIMAL, texts, dates or times."
            raise not_supported(constraint.span, what, why=why, hint=hint)


def without_broken(view: st.CreateMaterializedView, columns: Sequence[str]) -> st.SqlText:
    """The query of a view of some columns, without the rows that a constraint leaves out. Pure."""
    left_out, failing = _conditions(view, *_LEFT_OUT), _conditions(view, st.OnViolation.FAIL)
    key_checks = [
        (c, condition)
        for c, condition in zip(view.constraints, kept_texts(view), strict=True)
        if c.unique and c.action is st.OnViolation.FAIL
    ]
    if not left_out and not key_checks:
        return view.query
    condition = left_out or "TRUE"
    if left_out and failing:
        condition = f"({condition}) OR NOT ({failing})"  # such a row is an error, and not left out
    for constraint, holds in key_checks:
        message = quote_text(
            f'constraint "{constraint.name}" is broken: {constraint.rule} does not hold for '
        )
        pairs = ", ".join(f"{quote_text(c)}, {backtick(c)}" for c in columns)
        row = f"to_json(named_struct({pairs}))"
        failure = f"CAST(raise_error(concat({message}, {row})) AS BOOLEAN)"
        condition = f"CASE WHEN NOT {holds} THEN {failure} ELSE {condition} END"
    return over_query(view, columns, ", ".join(map(backtick, columns)), f" WHERE {condition}")


def over_query(
    view: st.CreateMaterializedView, columns: Sequence[str], items: str, where: str = ""
) -> st.SqlText:
    """A query of ``items`` over that of a view, with a column for each UNIQUE. Pure."""
    before, after = _source_texts(view, columns)
    before, after = f"SELECT {items} FROM {before}", f"{after}{where}"
    query = view.query
    edits = (
        st.Edit(span=query.span.front, text=before),
        *query.edits,
        st.Edit(span=query.span.behind, text=after),
    )
    return replace(query, edits=edits)


def quarantine_query(view: st.CreateMaterializedView, columns: Sequence[str]) -> str | None:
    """The query of a view's quarantine: the rows left out, and why; None for none. Pure.

    Its names are resolved as in the view's query.
    """
    condition = _conditions(view, st.OnViolation.QUARANTINE)
    if not condition:
        return None
    names = _broken(view, [c.name for c in view.constraints], ", ")
    why = _broken(view, [f"{c.rule} does not hold" for c in view.constraints], "; ")
    failing = _conditions(view, st.OnViolation.FAIL)
    which = f"NOT ({condition})" + (f" AND {failing}" if failing else "")
    name, reason = QUARANTINE_REASON
    before, after = _source_texts(view, columns)
    return (
        f"SELECT {', '.join(map(backtick, columns))}, {names} AS {name}, {why} AS {reason} "
        f"FROM {before}\n{splice(view.query.span, view.query.edits).text}{after} WHERE {which}"
    )


def kept_texts(view: st.CreateMaterializedView) -> list[str]:
    """For each constraint the condition that a row of :func:`over_query` keeps it; never NULL."""
    return [
        _key_column(i) if c.unique else f"({check_text(c)})" for i, c in enumerate(view.constraints)
    ]


def _source_texts(view: st.CreateMaterializedView, columns: Sequence[str]) -> tuple[str, str]:
    """The text before and after the query: a relation, with a column for each UNIQUE."""
    column_list = ", ".join(map(backtick, columns))
    before, after = "(", f"\n) AS {PROPOSED}({column_list})"
    unique = [
        f"{_alone(c)} AS {_key_column(i)}" for i, c in enumerate(view.constraints) if c.unique
    ]
    if unique:
        before = f"(SELECT *, {', '.join(unique)} FROM {before}"
        after += f") AS {PROPOSED}"
    return before, after


def _key_column(number: int) -> str:
    return backtick(f"{UNIQUE_}{number}")


_LEFT_OUT = (st.OnViolation.DROP, st.OnViolation.QUARANTINE)


def _conditions(view: st.CreateMaterializedView, *actions: st.OnViolation) -> str:
    """The condition that a row keeps all constraints with some actions; empty if there are none."""
    conditions = zip(view.constraints, kept_texts(view), strict=True)
    return " AND ".join(text for c, text in conditions if c.action in actions)


def _broken(view: st.CreateMaterializedView, texts: Sequence[str], between: str) -> str:
    each = ", ".join(
        f"IF({condition}, CAST(NULL AS STRING), {quote_text(text)})"
        for condition, text in zip(kept_texts(view), texts, strict=True)
    )
    return f"concat_ws({quote_text(between)}, {each})"


def check_text(constraint: st.ConstraintDef) -> str:
    """The condition that is true of each row that keeps a CHECK or a NOT NULL. Pure."""
    if constraint.predicate is None:
        return " AND ".join(f"{backtick(name)} IS NOT NULL" for name in constraint.columns)
    text = splice(constraint.predicate.span, constraint.predicate.edits).text
    return f"({_with_escaped_quotes(text)}) IS NOT FALSE"


def _with_escaped_quotes(text: str) -> str:
    r"""A condition with escaped quotes: Delta reads a doubled quote as the end of a text.

    >>> print(_with_escaped_quotes("s <> 'it''s' AND s <> '' AND s <> 'a' 'b'"))
    s <> 'it\'s' AND s <> '' AND s <> 'a' 'b'
    """
    pieces, end = [], 0
    for token in tokenise(Source(text, "constraint").whole()):
        if token.kind is Kind.STRING:
            literals = _LITERAL.sub(_escape_quotes, text[token.start : token.stop])
            pieces += [text[end : token.start], literals]
            end = token.stop
    return "".join([*pieces, text[end:]])


def _escape_quotes(literal: re.Match[str]) -> str:
    quote, inner = literal[0][0], literal[0][1:-1]
    escaped = re.sub(
        rf"\\.|{quote * 2}",
        lambda m: m[0] if m[0][0] == "\\" else f"\\{quote}",
        inner,
        flags=re.DOTALL,
    )
    return f"{quote}{escaped}{quote}"


def _alone(constraint: st.ConstraintDef) -> str:
    """The condition that no other row of the query has the key; one with a NULL is no key."""
    nulls = " OR ".join(f"{backtick(name)} IS NULL" for name in constraint.columns)
    key = ", ".join(map(backtick, constraint.columns))
    return f"({nulls} OR count(*) OVER (PARTITION BY {key}) = 1)"
