"""Reads MERGE INTO in the body of a continual task, and ``column = value, ...`` after SET."""

from dataclasses import replace
from itertools import pairwise

from ctsql.catalog.errors import error, invalid, not_supported
from ctsql.catalog.names import fold, quote, unquote
from ctsql.catalog.reserved_columns import SOURCE
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens.name_scopes import source_of
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, span_of, top_words

_CLAUSES = "WHEN MATCHED, WHEN NOT MATCHED or WHEN NOT MATCHED BY SOURCE"
_ALLOWED = {
    st.MergeWhen.MATCHED: (st.MergeAction.UPDATE, st.MergeAction.DELETE),
    st.MergeWhen.NOT_MATCHED: (st.MergeAction.INSERT,),
    st.MergeWhen.NOT_MATCHED_BY_SOURCE: (st.MergeAction.UPDATE, st.MergeAction.DELETE),
}


def read_merge(tokens: Tokens, verb: int = 0) -> st.MergeStatement:
    """Read a MERGE; ``verb`` is its index after a WITH clause, whose names the source may use."""
    cursor = TokenCursor(tokens, start=verb)
    cursor.expect("MERGE")
    if cursor.at("WITH", "SCHEMA", "EVOLUTION"):
        raise not_supported(
            cursor.here, "WITH SCHEMA EVOLUTION", hint="A task's columns do not change."
        )
    cursor.expect("INTO")
    target = cursor.relation("the table to merge into", aliased=False)
    alias = None
    if cursor.accept("AS") or not cursor.at("USING"):
        alias = cursor.name('"USING"').text
    target = replace(target, aliased=alias is not None)
    cursor.expect("USING")
    source, source_alias, source_ref = _source(cursor, verb)
    cursor.expect("ON")
    rest = cursor.rest
    starts = [i for i, word in top_words(rest) if word == "WHEN"]
    on = cursor.until(starts[0] if starts else len(rest), "a condition")
    if not starts:
        cursor.fail(_CLAUSES)
    written = source_of(target, alias)
    read = st.NamedSource(names=(fold(unquote(source_alias)),), columns=None)
    if source_ref is not None:
        read = source_of(source_ref)
    bounds = [*starts, len(rest)]
    clauses = tuple(_clause(rest[start:stop], written, read) for start, stop in pairwise(bounds))
    _check_reachable(clauses)
    return st.MergeStatement(
        span=span_of(tokens),
        target=target,
        source=source,
        source_alias=source_alias,
        on=analyse(on, form="predicate", outer=[(written, read)]),
        clauses=clauses,
        alias=alias,
        source_ref=source_ref,
    )


def _source(cursor: TokenCursor, verb: int) -> tuple[st.SqlText, str, st.RelationRef | None]:
    """The source as a query, its alias, and the relation if it is one without alias."""
    ref: st.RelationRef | None = None
    start = cursor.position
    if cursor.at("("):
        inside = cursor.group("a query", filled=True)
        text = analyse(inside, form="query")
        alias = quote(SOURCE)
    else:
        ref = _relation(cursor)
        text = st.rows_of(ref)
        alias = quote(ref.parts[-1])
    if verb:
        between = span_of(cursor.tokens[verb:start])
        tokens = [*cursor.tokens[:verb], *cursor.tokens[start : cursor.position]]
        cut = st.Edit(span=between, text=_ALL_OF)
        text = analyse(tokens, form="query", exclusion=cut)
    if cursor.accept("AS") or not cursor.at("ON"):
        alias = quote(cursor.name('"ON"').text)
        ref = None
    return text, alias, ref


_ALL_OF = "SELECT * FROM "


def _relation(cursor: TokenCursor) -> st.RelationRef:
    start = cursor.position
    kind = {k.name: k for k in st.ChangeKind}.get(cursor.upper())
    if kind is None or cursor.upper(1) != "(":
        return cursor.relation("the source", aliased=False)
    cursor.position += 2
    ref = cursor.relation("a relation", aliased=False)
    cursor.expect(")")
    span = span_of(cursor.tokens[start : cursor.position])
    return replace(ref, span=span, change=kind, inner=ref.span)


def _clause(tokens: Tokens, target: st.NamedSource, source: st.NamedSource) -> st.WhenClause:
    cursor = TokenCursor(tokens, of="clause")
    cursor.expect("WHEN")
    negated = cursor.accept("NOT")
    cursor.expect("MATCHED")
    when = st.MergeWhen.NOT_MATCHED if negated else st.MergeWhen.MATCHED
    if negated and cursor.accept("BY", "SOURCE"):
        when = st.MergeWhen.NOT_MATCHED_BY_SOURCE
    elif negated:
        cursor.accept("BY", "TARGET")
    scope = {
        st.MergeWhen.MATCHED: (target, source),
        st.MergeWhen.NOT_MATCHED: (source,),
        st.MergeWhen.NOT_MATCHED_BY_SOURCE: (target,),
    }[when]
    condition = None
    if cursor.accept("AND"):
        rest = cursor.rest
        stop = next((i for i, word in top_words(rest) if word == "THEN"), len(rest))
        condition_tokens = cursor.until(stop, "a condition")
        condition = analyse(condition_tokens, form="predicate", outer=[scope])
    cursor.expect("THEN")
    actions = _ALLOWED[when]
    action = next((a for a in actions if cursor.at(a.name)), None)
    if action is None:
        cursor.fail(" or ".join(a.name for a in actions), words=[a.name for a in actions])
    cursor.take()
    clause = st.WhenClause(span=span_of(tokens), when=when, action=action, condition=condition)
    if action is st.MergeAction.DELETE:
        cursor.end()
        return clause
    if action is st.MergeAction.UPDATE:
        cursor.expect("SET")
    has_star = when is not st.MergeWhen.NOT_MATCHED_BY_SOURCE and len(cursor.rest) == 1
    if has_star and cursor.at("*"):
        return replace(clause, star=cursor.here)
    if action is st.MergeAction.INSERT:
        return replace(clause, assignments=_insert(cursor, target, scope))
    assignment_tokens = cursor.until(len(cursor.tokens), "a column")
    assignments = read_assignments(assignment_tokens, target, scope)
    return replace(clause, assignments=assignments)


def _insert(
    cursor: TokenCursor, target: st.NamedSource, scope: st.NameScope
) -> tuple[st.Assignment, ...]:
    columns = _group(cursor, "the columns to fill in parentheses, or *")
    cursor.expect("VALUES")
    place = cursor.here
    values = _group(cursor, "the values in parentheses")
    cursor.end()
    if len(columns) != len(values):
        message = f"{len(values)} value(s) are given for {len(columns)} column(s)"
        raise error("COLUMN_COUNT_MISMATCH", span=place, message=message)
    assignments = []
    for column, value in zip(columns, values, strict=True):
        if not column or not value:
            raise syntax_error(place, "a column or a value is missing in the list")
        inner = TokenCursor(column, of="column")
        assignment = _column(inner, target)
        inner.end()
        assignments.append(replace(assignment, value=_read_value(value, scope)))
    return _check_unique(assignments)


def _group(cursor: TokenCursor, what: str) -> list[Tokens]:
    if not cursor.at("("):
        cursor.fail(what)
    return cut_at_commas(cursor.group())


def _check_reachable(clauses: tuple[st.WhenClause, ...]) -> None:
    """Refuse a clause that cannot apply: one of its kind without a condition precedes it."""
    kinds: set[st.MergeWhen] = set()
    for clause in clauses:
        if clause.when in kinds:
            kind = clause.when.name.replace("_", " ")
            detail = "An earlier clause has no condition and takes every row."
            hint = f"Only the last WHEN {kind} clause may be without AND <condition>."
            raise invalid(clause.span, f"this WHEN {kind} clause never applies", detail, hint)
        if clause.condition is None:
            kinds.add(clause.when)


# ---- column = value


def read_assignments(
    tokens: Tokens,
    target: st.NamedSource,
    scope: st.NameScope,
    cte_names: frozenset[str] = frozenset(),
) -> tuple[st.Assignment, ...]:
    """Read the assignments after SET; ``target`` may qualify a column, values see ``scope``."""
    assignments: list[st.Assignment] = []
    for group in cut_at_commas(tokens):
        if not group:
            raise syntax_error(tokens[0].span, "an assignment is missing after SET")
        cursor = TokenCursor(group, of="assignment")
        assignment = _column(cursor, target)
        cursor.expect("=")
        value = _read_value(cursor.until(len(cursor.tokens), "a value"), scope, cte_names)
        assignments.append(replace(assignment, value=value))
    return _check_unique(assignments)


def _column(cursor: TokenCursor, target: st.NamedSource) -> st.Assignment:
    """Read the column that is assigned; its value is read later."""
    parts = cursor.dotted_name("a column")
    qualifier = tuple(fold(part.text) for part in parts[:-1])
    span = span_of(parts)
    if not _is_qualifier(qualifier, target):
        hint = "Set the whole column: SET s = named_struct(...)"
        raise not_supported(span, "setting a field of a column", hint=hint)
    return st.Assignment(column=parts[-1].text, span=span, value=None, qualifier=qualifier)


def _check_unique(assignments: list[st.Assignment]) -> tuple[st.Assignment, ...]:
    """The assignments; DUPLICATE_COLUMN: a column is assigned twice."""
    names: set[str] = set()
    for assignment in assignments:
        if fold(assignment.column) in names:
            raise error("DUPLICATE_COLUMN", span=assignment.span, column=assignment.column)
        names.add(fold(assignment.column))
    return tuple(assignments)


def _is_qualifier(parts: tuple[str, ...], target: st.NamedSource) -> bool:
    """Whether folded names may qualify a column of a statement's target.

    If the target is typed without a schema, its schema is not checked here.
    """
    is_bare = target.ref is not None and len(target.names) == 1
    return target.names[len(target.names) - len(parts) :] == parts or (
        is_bare and parts[1:] == target.names
    )


def _read_value(
    tokens: Tokens, scope: st.NameScope, cte_names: frozenset[str] = frozenset()
) -> st.SqlText | None:
    """A value; None for DEFAULT. The other arguments: as for :func:`read_assignments`."""
    if len(tokens) == 1 and tokens[0].upper == "DEFAULT":
        return None
    return analyse(tokens, form="predicate", cte_names=cte_names, outer=(scope,))
