"""Binding of constraints, and the query of a view whose constraints leave rows out."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ctsql.catalog import schemas
from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import backtick, quote
from ctsql.catalog.reserved_columns import KEY_, OTHER_, PROPOSED, REFERS_, UNIQUE_
from ctsql.catalog.schemas import Column, quote_text
from ctsql.catalog.spans import Source
from ctsql.planner import nodes as lp
from ctsql.planner.binding.analyst import Analyst
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.tokenizer import word_set

QUARANTINE_REASON = ("constraint_name", "reason")
"""Columns of a view's quarantine behind those of the view."""


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
    is_key = _is_key(constraint)
    bound = lp.Constraint(
        object_id=own.id,
        name=constraint.name,
        action=constraint.action,
        predicate=None if predicate is None else lp.Query(sql=predicate, relations=(), columns=()),
        rule=constraint.rule,
        not_null=() if is_key else columns,
        key=columns if is_key else (),
        of=own.name if own.kind is ObjectKind.TASK_OUTPUT else None,
    )
    if analyst is not None and bound.predicate is not None:
        names = tuple(c.name for c in own.columns)
        rows = lp.Get(object_id=own.id, name=own.name, columns=names, role=lp.Role.SELF)
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
        if _kind(column).upper() not in _COMPARED or "collate" in column.type.lower():
            what = f"a key of type {column.type.upper()}"
            why = "Values of it may be equal without being the same."
            hint = "Take columns of whole numbers, DECIMAL, texts, dates or times."
            raise not_supported(constraint.span, what, why=why, hint=hint)


def _kind(column: Column) -> str:
    return column.type.lower().split("(")[0].split("<")[0].split()[0]


_DIGITS = {"tinyint": 3, "byte": 3, "smallint": 5, "short": 5, "int": 10, "integer": 10,
           "bigint": 19, "long": 19, "decimal": 10, "dec": 10, "numeric": 10}  # fmt: skip
"""Digits of types of numbers without a fraction, where the type does not say how many."""
_DIGITS_MAX = 38
_SAME = dict.fromkeys(("varchar", "char", "character"), "string") | {"timestamp_ltz": "timestamp"}
"""Kinds of which the values are those of another."""


def check_reference(
    constraint: st.ConstraintDef, key: Sequence[Column], keys: Sequence[Column]
) -> None:
    """Refuse a key that is compared with another only after a cast: NOT_SUPPORTED.

    Several values of the other relation could equal one, as '1' and '01' do of 1.

    Args:
        key: the columns of the rows that refer. keys: those that they refer to.
    """
    check_key(constraint, keys)
    for own, other in zip(key, keys, strict=True):
        if not compares(own, other):
            what = f"a key of type {own.type.upper()} that refers to one of {other.type.upper()}"
            why = "Several values there may equal one after the cast."
            hint = f"CAST the query's value, and give {quote(own.name)} the type of the other."
            raise not_supported(constraint.span, what, why=why, hint=hint)


def compares(one: Column, other: Column) -> bool:
    """Whether two keys can be compared with every value as it is."""
    first, second = _size(one), _size(other)
    if first and second:
        return max(first[0], second[0]) + max(first[1], second[1]) <= _DIGITS_MAX
    kinds = [_SAME.get(kind, kind) for kind in map(_kind, (one, other))]
    return kinds[0] == kinds[1]


def _size(column: Column) -> tuple[int, int] | None:
    """The digits of numbers before and behind the point; None for other values."""
    kind = _kind(column)
    if kind not in _DIGITS:
        return None
    numbers = [int(number) for number in re.findall(r"\d+", column.type)]
    digits, fraction = numbers + [_DIGITS[kind], 0][len(numbers) :]
    return digits - fraction, fraction


def without_broken(view: st.CreateMaterializedView, columns: Sequence[str]) -> st.SqlText:
    """The query of a view of some columns, without the rows that a constraint leaves out. Pure."""
    left_out, failing = _conditions(view, *_LEFT_OUT), _conditions(view, st.OnViolation.FAIL)
    key_checks = [
        (c, condition)
        for c, condition in zip(view.constraints, kept_texts(view), strict=True)
        if _is_key(c) and c.action is st.OnViolation.FAIL
    ]
    if not left_out and not key_checks:
        return view.query
    condition = left_out or "TRUE"
    if left_out and failing:
        condition = (
            f"({condition}) OR NOT ({failing})"  # such a row is no row to be left out, but an error
        )
    for constraint, holds in key_checks:
        message = quote_text(
            f'constraint "{constraint.name}" is broken: {constraint.rule} does not hold for '
        )
        row = f"to_json(named_struct({_pairs(columns)}))"
        failure = f"CAST(raise_error(concat({message}, {row})) AS BOOLEAN)"
        condition = f"CASE WHEN NOT {holds} THEN {failure} ELSE {condition} END"
    return over_query(view, columns, ", ".join(map(backtick, columns)), f" WHERE {condition}")


def over_query(
    view: st.CreateMaterializedView, columns: Sequence[str], items: str, where: str = ""
) -> st.SqlText:
    """A query over that of a view, with a column for each constraint of a key. Pure.

    Where another relation is referred to it is a text of its own, whose errors have no place in the
    statement.

    Args:
        items: what is selected.
    """
    before, after = _source_texts(view, columns)
    before, after = f"SELECT {items} FROM {before}", f"{after}{where}"
    query = view.query
    if any(c.references is not None for c in view.constraints):
        text = f"{before}{splice(query.span, query.edits).text}{after}"
        return analyse(Source(text, "the query with its constraints").whole(), form="query")
    edits = (
        st.Edit(span=query.span.front, text=before),
        *query.edits,
        st.Edit(span=query.span.behind, text=after),
    )
    return replace(query, edits=edits)


def quarantine_query(view: st.CreateMaterializedView, columns: Sequence[str]) -> str | None:
    """The query of a view's quarantine: the rows that are left out, and why; None for none. Pure.

    Names in it mean what they mean in the view's query.
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
        _key_column(i, c) if _is_key(c) else f"({check_text(c)})" for i, c in _with_numbers(view)
    ]


def _source_texts(view: st.CreateMaterializedView, columns: Sequence[str]) -> tuple[str, str]:
    """What stands before and behind the query, to make it a relation that conditions can be about.

    It has a column for each UNIQUE and each REFERENCES, which says whether it holds.
    """
    column_list = ", ".join(map(backtick, columns))
    before, after = "(", f"\n) AS {PROPOSED}({column_list})"
    refers = [(i, c) for i, c in _with_numbers(view) if c.references is not None]
    if refers:
        own = ", ".join(f"{PROPOSED}.{backtick(c)} AS {backtick(c)}" for c in columns)
        key_columns = ", ".join(f"{_referred(c, i)} AS {_key_column(i, c)}" for i, c in refers)
        joins = "".join(_join(c, i) for i, c in refers)
        before, after = (
            f"(SELECT {own}, {key_columns} FROM {before}",
            f"{after}{joins}) AS {PROPOSED}",
        )
    unique = [f"{_alone(c)} AS {_key_column(i, c)}" for i, c in _with_numbers(view) if c.unique]
    if unique:
        before = f"(SELECT *, {', '.join(unique)} FROM {before}"
        after += f") AS {PROPOSED}"
    return before, after


def _is_key(constraint: st.ConstraintDef) -> bool:
    return constraint.unique or constraint.references is not None


def _key_column(number: int, constraint: st.ConstraintDef) -> str:
    return backtick(f"{UNIQUE_ if constraint.unique else REFERS_}{number}")


def _join(constraint: st.ConstraintDef, number: int) -> str:
    """The keys of the other relation, each once, joined to the rows of the query that have them."""
    assert constraint.references is not None  # the caller looked
    pairs = list(enumerate(zip(constraint.columns, constraint.keys, strict=True)))
    other = f"{OTHER_}{number}"
    keys = ", ".join(f"{backtick(key)} AS {KEY_}{n}" for n, (_, key) in pairs)
    equal = " AND ".join(f"{PROPOSED}.{backtick(own)} = {other}.{KEY_}{n}" for n, (own, _) in pairs)
    relation = constraint.references.name_span.text
    return f" LEFT JOIN (SELECT DISTINCT {keys} FROM {relation}) AS {other} ON {equal}"


def _referred(constraint: st.ConstraintDef, number: int) -> str:
    """The condition that the other relation has the key; one with a NULL is no key."""
    nulls = " OR ".join(f"{PROPOSED}.{backtick(name)} IS NULL" for name in constraint.columns)
    return f"({nulls} OR {OTHER_}{number}.{KEY_}0 IS NOT NULL)"


_LEFT_OUT = (st.OnViolation.DROP, st.OnViolation.QUARANTINE)


def _with_numbers(view: st.CreateMaterializedView) -> Iterator[tuple[int, st.ConstraintDef]]:
    return iter(enumerate(view.constraints))


def _conditions(view: st.CreateMaterializedView, *actions: st.OnViolation) -> str:
    """The condition that a row keeps all constraints with some actions; empty where there are none.

    Pure.
    """
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
    return f"({splice(constraint.predicate.span, constraint.predicate.edits).text}) IS NOT FALSE"


def _alone(constraint: st.ConstraintDef) -> str:
    """The condition that no other row of the query has the key; one with a NULL is no key."""
    nulls = " OR ".join(f"{backtick(name)} IS NULL" for name in constraint.columns)
    key = ", ".join(map(backtick, constraint.columns))
    return f"({nulls} OR count(*) OVER (PARTITION BY {key}) = 1)"


def _pairs(columns: Sequence[str]) -> str:
    return ", ".join(f"{quote_text(c)}, {backtick(c)}" for c in columns)
