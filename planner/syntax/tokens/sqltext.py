"""Reads a piece of Spark SQL: its relations, and the places in it that ctsql replaces.

sqlglot's tree only finds the relations. If sqlglot cannot parse a form of Spark, the text for
sqlglot is changed first (:mod:`ctsql.planner.syntax.tokens.sqlglot_gaps`), never Spark's text.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from ctsql.catalog.errors import CtsqlError, not_supported
from ctsql.catalog.names import near
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import ChangeKind, Edit, NameScope, RelationRef, SqlText
from ctsql.planner.syntax.tokens import replaceable_calls, tokenizer as tk
from ctsql.planner.syntax.tokens.file_refs import read_file
from ctsql.planner.syntax.tokens.name_scopes import qualified_names
from ctsql.planner.syntax.tokens.rewrite import RewrittenText, splice
from ctsql.planner.syntax.tokens.sqlglot_gaps import gaps, table_operands, type_calls
from ctsql.planner.syntax.tokens.token_reader import relation_ref, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, plain_comments, span_of

Form = Literal["query", "predicate", "statement", "ctes"]

TIME_TRAVEL = ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME")
_CHANGES = {kind.name: kind for kind in ChangeKind}
_HIDING = ("IDENTIFIER", "STREAM")  # calls that name a relation where it would not be found
_AS_OF_HINT = "Type SELECT ... AS OF <time> at the end of the query: all is read as of that time."

# What sqlglot raises besides its own errors, on text that it knows in part.
_CRASHES = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def analyse(
    tokens: Tokens,
    *,
    form: Form,
    targets: Iterable[RelationRef] = (),
    exclusion: Edit | None = None,
    cte_names: frozenset[str] = frozenset(),
    outer: Sequence[NameScope] = (),
) -> SqlText:
    """Find the relations that a piece of SQL reads.

    Args:
        form: a query, a predicate (the text after WHERE), a DML statement, or a WITH clause alone.
        targets: relations that are written; the result excludes them.
        exclusion: a part that does not belong to the piece, and its replacement; not in ``tokens``.
        cte_names: common table expressions around the piece, in lower case.
        outer: the scopes around the piece, innermost first: a statement's target, for example.

    Raises:
        SYNTAX_ERROR: it cannot be parsed. NOT_SUPPORTED: a time travel clause. INVALID_NAME: a
            relation's name has more than two parts.
    """
    span = span_of(tokens)
    _refuse_time_travel(tokens)
    outside = [] if exclusion is None else [exclusion]
    tree, sql = _tree(span, form, tokens, outside)
    _check_form(tree, span, form, tokens)
    written = {target.span.start: target for target in targets}
    nodes = _relations(tree, sql, tokens, written, cte_names)
    # A pipe's tree holds the same relation several times.
    relations = {ref.span.start: ref for ref in nodes.values() if ref.span.start not in written}
    return SqlText(
        span=span,
        relations=tuple(relations[start] for start in sorted(relations)),
        clocks=replaceable_calls.clocks(tokens),
        nondeterministic=replaceable_calls.nondeterministic(tokens),
        edits=tuple(
            sorted((*outside, *replaceable_calls.type_edits(tokens)), key=lambda e: e.span.start)
        ),
        parameters=replaceable_calls.parameters(tokens),
        names=qualified_names(tree, sql, tokens, nodes, outer),
    )


def _refuse_time_travel(tokens: Tokens) -> None:
    for index, token in enumerate(tokens[:-1]):
        if token.upper in TIME_TRAVEL and tk.words_are(tokens, index + 1, "AS", "OF"):
            span = Span(token.source, token.start, tokens[index + 2].stop)
            what = "reading one relation at another time"
            raise not_supported(span, what, hint=_AS_OF_HINT)
        behind = tokens[index + 2] if index + 2 < len(tokens) else None
        if behind is None or not tk.words_are(tokens, index, "AS", "OF"):
            continue
        if behind.kind in (Kind.NUMBER, Kind.STRING) or behind.upper == "TIMESTAMP":
            span = Span(token.source, token.start, behind.stop)
            raise not_supported(span, "AS OF inside a statement", hint=_AS_OF_HINT)


def _tree(
    span: Span, form: Form, tokens: Tokens, outside: list[Edit]
) -> tuple[exp.Expr, RewrittenText]:
    """The tree that sqlglot makes, and the text it was given."""
    before, after = {"predicate": ("SELECT 1 WHERE (", "\n)"), "ctes": ("", "\nSELECT 1")}.get(
        form, ("", "")
    )
    frame = [Edit(span=span.front, text=before), Edit(span=span.behind, text=after)]
    always = [*table_operands(tokens), *type_calls(tokens), *outside]
    sql = splice(span, [frame[0], *always, frame[1]])
    try:
        return parse_tree(sql), sql
    except ParseError as cause:
        wider = splice(span, [frame[0], *gaps(tokens), *always, frame[1]])
        if wider.text != sql.text:
            try:
                return parse_tree(wider), wider
            except ParseError as second:
                raise _parse_error(second, wider, span, tokens) from second
        raise _parse_error(cause, sql, span, tokens) from cause


def parse_tree(sql: RewrittenText) -> exp.Expr:
    """The tree that sqlglot makes of a text; raises ParseError, and TokenError as sqlglot does."""
    try:
        return sqlglot.parse_one(plain_comments(sql.text), dialect="spark")
    except _CRASHES as cause:
        raise ParseError(str(cause)) from cause


def _parse_error(cause: ParseError, sql: RewrittenText, span: Span, tokens: Tokens) -> CtsqlError:
    """Translate an error of sqlglot: its place in the user's text, and a plain message."""
    fields = cause.errors[0] if cause.errors else {}
    place = span
    line, column, highlight = (fields.get("line"), fields.get("col"), fields.get("highlight") or "")
    if line and column:  # the column is that of the highlight's last character, from 1
        lines = sql.text.split("\n")
        stop = sum(len(text) + 1 for text in lines[: line - 1]) + column
        start = sql.origin(stop - len(highlight))
        hit = next((t for t in tokens if t.start <= start < t.stop), None)
        place = hit.span if hit else span.behind
    mistake = usual_mistake(tokens, place.start, cause)
    if mistake is not None:
        return mistake
    description = str(fields.get("description") or "")
    place_text = f'"{place.text}"' if place.text else "the end of the statement"
    if place.text and place.stop == tokens[-1].stop and "missing" in description:
        message = f"the statement ends too early, after {place_text}"
    elif description.startswith("Expecting ") and len(description) <= len("Expecting ") + 2:
        message = f'found {place_text}, expected "{description.removeprefix("Expecting ")}"'
    elif place == span:
        message = "the statement cannot be read"
    else:
        message = f"{place_text} is not expected here"
    return syntax_error(place, message, cause=cause)


def _check_form(tree: exp.Expr, span: Span, form: Form, tokens: Tokens) -> None:
    types: tuple[type[exp.Expr], ...] = (exp.Query, exp.Values)
    if form == "statement":
        types = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
    if isinstance(tree, exp.MultitableInserts):
        raise not_supported(span, "an INSERT into several tables", hint="Type one INSERT for each.")
    if not isinstance(tree, types):
        place = tokens[0].span
        raise syntax_error(place, f'found "{place.text}", expected a {form}')


def _relations(
    tree: exp.Expr,
    sql: RewrittenText,
    tokens: Tokens,
    written: Mapping[int, RelationRef],
    cte_names: frozenset[str],
) -> dict[int, RelationRef]:
    starts = {token.start: index for index, token in enumerate(tokens)}
    refs: dict[int, RelationRef] = {}
    for table in tree.find_all(exp.Table):
        index = _first_token(table, sql, starts)
        if index is None:
            continue
        ref = written.get(tokens[index].start) or _read_relation(table, tokens, index, cte_names)
        if ref is not None:
            refs[id(table)] = ref
    return refs


def _first_token(table: exp.Table, sql: RewrittenText, starts: dict[int, int]) -> int | None:
    offsets = [i.meta.get("start") for i in table.parts if isinstance(i, exp.Identifier)]
    if isinstance(table.this, exp.Func):
        offsets = [table.this.meta.get("start")]
    if isinstance(table.this, exp.Dot):
        offsets = [i.meta.get("start") for i in table.this.find_all(exp.Identifier)] + offsets
    starts_there = [offset for offset in offsets if offset is not None]
    return starts.get(sql.origin(min(starts_there))) if starts_there else None


def _read_relation(
    table: exp.Table, tokens: Tokens, index: int, cte_names: frozenset[str]
) -> RelationRef | None:
    """The relation at an index; None for what Spark reads by itself."""
    is_call = isinstance(table.this, exp.Func)
    change = _change_reference(table, tokens, index) if is_call else None
    if change is not None:
        return change
    file = read_file(tokens, index)
    if file is not None:
        return _reference(table, *file, tokens, index)
    if is_call:
        token = tokens[index]
        if token.upper in _HIDING:
            what = f"{token.upper}(...) as a relation"
            raise not_supported(token.span, what, hint="Type the name itself.")
        return None
    named_around = not table.args.get("db") and table.name.lower() in cte_names
    if table.find_ancestor(exp.Hint) or named_around or _is_cte(table):
        return None
    parts = tk.name_chain(tokens, index)
    if parts[-1].text.lower() != table.name.lower():
        return None  # a name that sqlglot made up for a step of a pipe
    behind = index + 2 * len(parts) - 1
    following = tokens[behind] if behind < len(tokens) else None
    if following is not None and following.upper == "@":
        span = Span(following.source, parts[0].start, tokens[min(behind + 1, len(tokens) - 1)].stop)
        raise not_supported(span, "reading one relation at another time", hint=_AS_OF_HINT)
    return _reference(table, relation_ref(parts, aliased=False), behind, tokens, index)


def _reference(
    table: exp.Table, ref: RelationRef, behind: int, tokens: Tokens, index: int
) -> RelationRef:
    """The relation, with the token ``behind`` it and the place of its alias."""
    # The operand of TABLE is a name and nothing else.
    before = [token.upper for token in tokens[max(index - 2, 0) : index]]
    operand = before == ["TABLE", "("] or before[-1:] == ["TABLE"]
    place = None
    if [t.upper for t in tokens[behind : behind + 2]] == ["TABLESAMPLE", "("]:
        # Spark wants the alias after the sample clause.
        stop = tk.closing(tokens, behind) + 1
        if stop < len(tokens) and tokens[stop].upper == "REPEATABLE":
            stop = tk.closing(tokens, stop) + 1
        place = tokens[stop - 1].span.behind
    aliased = bool(table.alias) or operand
    return dataclasses.replace(ref, aliased=aliased, alias_place=place)


def _change_reference(table: exp.Table, tokens: Tokens, index: int) -> RelationRef | None:
    """The relation of ``inserts(t)`` and its like; None for another function."""
    kind = _CHANGES.get(tokens[index].upper)
    if kind is None or index + 1 == len(tokens) or tokens[index + 1].upper != "(":
        return None
    stop = tk.closing(tokens, index + 1)
    span = Span(tokens[index].source, tokens[index].start, tokens[stop].stop)
    inside = tokens[index + 2 : stop]
    parts = inside[::2]
    dots = all(t.upper == "." for t in inside[1::2])
    if len(inside) % 2 == 0 or not dots or not all(t.is_name for t in parts):
        raise syntax_error(
            span, f"{kind.value}(...) takes the name of a relation", hint=f"Type: {kind.value}(t)"
        )
    ref = relation_ref(parts, aliased=bool(table.alias))
    named = bool(table.alias_column_names)
    return dataclasses.replace(ref, span=span, change=kind, inner=ref.span, names_columns=named)


def _is_cte(table: exp.Table) -> bool:
    """Whether a name means a common table expression that is visible there."""
    if table.args.get("db"):
        return False
    child: exp.Expr = table
    while (ancestor := child.parent) is not None:
        members: Sequence[exp.Expr] = ()
        if isinstance(ancestor, exp.With):  # a member sees those in front of it
            stop = (child.index or 0) + bool(ancestor.args.get("recursive"))
            members = ancestor.expressions[:stop]
        elif child.arg_key != "with_" and (clause := ancestor.args.get("with_")) is not None:
            members = clause.expressions
        if any(member.alias.lower() == table.name.lower() for member in members):
            return True
        child = ancestor
    return False


_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "JOIN")
_ENDS_LIST = (*_CLAUSES, ")", ";")
_IN_DELETE = "DELETE FROM t WHERE k IN (SELECT k FROM other)"
_MERGE = "MERGE INTO t USING other ON t.k = other.k WHEN MATCHED THEN {then}"
_UPSERT = f"{_MERGE.format(then='UPDATE SET *')} WHEN NOT MATCHED THEN INSERT *"


def usual_mistake(tokens: Tokens, place: int, cause: Exception | None = None) -> CtsqlError | None:
    """The SYNTAX_ERROR of the first common mistake in a text that cannot be parsed; None for none.

    A parser seldom stops at the mistake. This runs only after it has failed, so it may guess.

    Args:
        tokens: of a statement or a part of one. place: the offset at which the parser stopped.
    """
    for index, message, hint in (*_other_dialects(tokens), *_slips(tokens, place)):
        return syntax_error(tokens[index].span, message, hint=hint, cause=cause)
    return None


def _other_dialects(tokens: Tokens) -> Iterator[tuple[int, str, str]]:
    """Clauses of other databases for which there is another form."""
    verb = tokens[0].upper if tokens else ""
    for index, token in tk.at_depth_0(tokens):
        if verb == "DELETE" and token.upper == "USING":
            yield (
                index,
                "DELETE has no USING",
                f"Type: {_IN_DELETE}, or: {_MERGE.format(then='DELETE')}",
            )
        if verb == "UPDATE" and token.upper == "FROM":
            yield index, "UPDATE has no FROM", f"Type: {_MERGE.format(then='UPDATE SET ...')}"
        if verb == "INSERT" and tk.words_are(tokens, index, "ON", "CONFLICT"):
            yield index, "INSERT has no ON CONFLICT", f"Type: {_UPSERT}"
        if verb in ("INSERT", "UPDATE", "DELETE") and token.upper == "RETURNING":
            yield index, f"{verb} has no RETURNING", "SELECT the rows in another statement."


def _slips(tokens: Tokens, place: int) -> Iterator[tuple[int, str, str]]:
    """A comma too many, a CASE without END, a slip in a word where the parser stopped."""
    for index, token in enumerate(tokens):
        is_last = index + 1 == len(tokens)
        if token.upper == "," and (is_last or tokens[index + 1].upper in _ENDS_LIST):
            hint = "Leave the comma out, or write what comes next."
            yield index, "nothing follows this comma", hint
    open_cases: list[int] = []
    for index, token in enumerate(tokens):
        if tk.upper_at(tokens, index - 1) in (".", "AS"):
            continue
        if token.upper == "CASE":
            open_cases.append(index)
        elif token.upper == "END" and open_cases:
            open_cases.pop()
    if open_cases:
        yield open_cases[-1], "this CASE has no END", "Type: CASE WHEN ... THEN ... ELSE ... END"
    stop = next((i for i, t in enumerate(tokens) if t.stop > place), len(tokens))
    for index in range(max(stop - 1, 1), min(stop + 1, len(tokens))):
        token = tokens[index]
        if token.kind is Kind.WORD and token.upper not in _CLAUSES:
            candidates = near(token.upper, _CLAUSES)
            if candidates:
                message = f'found "{token.span.text}", expected a clause'
                yield index, message, f'Did you mean "{candidates[0]}"?'
