"""Reads dynamic tables that say themselves how they are refreshed, as Snowflake spells them.

    CREATE DYNAMIC TABLE x (columns) TARGET_LAG = '5 minutes' REFRESH USING (statement)
    -->
    CREATE CONTINUAL TASK x (columns) ON INPUT t WITH (COALESCE = '5 minutes') AS (statement)

SELF is x, and the relations that are read with CHANGES are the inputs:

    t CHANGES (INFORMATION => APPEND_ONLY)  -->  inserts(t)
    t CHANGES (INFORMATION => DEFAULT)      -->  inserts(t) and deletes(t), by METADATA$ACTION

All others are read whole, as of the T of the run.

Source: Snowflake's pages "Custom incrementalization" and "CHANGES".
"""

from dataclasses import dataclass

from ctsql.catalog.errors import invalid, not_supported
from ctsql.catalog.names import backtick, fold, quote
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.desugar.task_forms import comment_above
from ctsql.planner.syntax.statements.body import read_body
from ctsql.planner.syntax.statements.dialects import DynamicClauses
from ctsql.planner.syntax.statements.static_reads import read_whole
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.rewrite import splice
from ctsql.planner.syntax.tokens.token_reader import Cursor, relation_ref
from ctsql.planner.syntax.tokens.tokenizer import Tokens, closing, span_of, tokenise

_METADATA = "METADATA"
_ACTION = "METADATA$ACTION"
_HINT = (
    "Type: REFRESH USING (INSERT INTO SELF SELECT ... FROM t CHANGES (INFORMATION => APPEND_ONLY))"
)
_NOT_ACTION = {
    "ISUPDATE": "A change is net: an update is a row that goes and a row that comes, and no row "
    "says of which other it is the new version.",
    "ROW_ID": "Rows have no number of their own here.",
}


@dataclass(frozen=True, slots=True)
class _Changes:
    """``t CHANGES (...) [AS] alias``: the relation, whether deletes count, and where it stands."""

    relation: Tokens
    with_deletes: bool
    span: Span
    alias: str


def read_refresh(
    cursor: Cursor, head: Span, target: st.RelationRef, clauses: DynamicClauses
) -> Tokens:
    """Read from REFRESH USING on; returns the tokens of the continual task.

    Args:
        head: IF NOT EXISTS, the name and the columns, as typed.

    Raises:
        SYNTAX_ERROR, INVALID_STATEMENT, NOT_SUPPORTED: of what cannot be honoured, by name.
    """
    cursor.expect("REFRESH", "USING")
    _check_clauses(clauses)
    opening = cursor.here
    inside = cursor.group("the statement that refreshes it")
    cursor.end(hint="REFRESH USING stands last.")
    if not inside or inside[0].upper not in ("INSERT", "MERGE", "WITH"):
        place = inside[0].span if inside else opening
        raise invalid(
            place, "REFRESH USING takes one INSERT INTO SELF or MERGE INTO SELF", "", _HINT
        )
    changes = _find_changes(inside)
    if not changes:
        message = "REFRESH USING reads no CHANGES, so nothing says when it is to run"
        hint = "Read a table with CHANGES, or type: CREATE DYNAMIC TABLE ... AS SELECT ..."
        raise invalid(span_of(inside), message, "", hint)
    statement = _spelled(inside, changes, target)
    body = _with_contents(statement, target)
    inputs = {tuple(fold(t.text) for t in c.relation[::2]): span_of(c.relation) for c in changes}
    options = "" if clauses.lag is None else f" WITH (COALESCE = {clauses.lag.text})"
    comment = "" if clauses.comment is None else f" COMMENT {quote_text(clauses.comment)}"
    names = ", ".join(span.text for span in inputs.values())
    body = comment_above(cursor.span.text, body)
    text = f"CREATE CONTINUAL TASK {head.text}{comment} ON INPUT {names}{options} AS (\n{body}\n)"
    return tokenise(Source(text, f"{cursor.source.name} (compiled)").whole())


def _check_clauses(clauses: DynamicClauses) -> None:
    if clauses.mode is not None:
        hint = "Leave it out, or type REFRESH_MODE = CUSTOM_INCREMENTAL."
        what = f"{clauses.mode.text} with REFRESH USING"
        raise not_supported(clauses.mode, what, why="The statement says how it runs.", hint=hint)
    if clauses.on_schedule is not None:
        what = "INITIALIZE = ON_SCHEDULE with REFRESH USING"
        why = "What is there is taken in when it is created."
        hint = "Leave the clause out. To begin with later changes: CREATE CONTINUAL TASK ... "
        hint += "WITH (SNAPSHOT = false)"
        raise not_supported(clauses.on_schedule, what, why=why, hint=hint)


def _find_changes(tokens: Tokens) -> list[_Changes]:
    """The relations that are read with CHANGES, in both spellings."""
    changes = []
    for index, token in enumerate(tokens):
        if token.upper != "CHANGES" or tk.upper_at(tokens, index + 1) != "(":
            continue
        stop = closing(tokens, index + 1)
        inside = tokens[index + 2 : stop]
        if index and tokens[index - 1].is_name and tk.upper_at(tokens, index + 2) == "INFORMATION":
            begin = index - 1
            while tk.upper_at(tokens, begin - 1) == "." and begin >= 2:
                begin -= 2
            changes.append(_changes(tokens, begin, tokens[begin:index], inside, stop + 1))
        else:
            relation = tk.cut_at_commas(inside)[0]
            options = inside[len(relation) + 1 :]
            changes.append(_changes(tokens, index, relation, options, stop + 1))
    return changes


def _changes(
    tokens: Tokens, begin: int, relation: Tokens, options: Tokens, behind: int
) -> _Changes:
    """One of them; ``behind`` is the index of what follows its parentheses."""
    place = span_of(tokens[begin:behind])
    dots = all(t.upper == "." for t in relation[1::2])
    if len(relation) % 2 == 0 or not dots or not all(t.is_name for t in relation[::2]):
        raise invalid(
            place, "CHANGES is asked of something that is not a relation's name", "", _HINT
        )
    parts = relation_ref(relation[::2], aliased=True).parts
    with_deletes = True
    if options:
        cursor = Cursor(options, of="clause")
        cursor.expect("INFORMATION", "=>")
        word = cursor.name("DEFAULT or APPEND_ONLY")
        if word.upper not in ("DEFAULT", "APPEND_ONLY"):
            cursor.position -= 1
            cursor.fail("DEFAULT or APPEND_ONLY", words=("DEFAULT", "APPEND_ONLY"))
        cursor.end()
        with_deletes = word.upper == "DEFAULT"
    if (
        tk.upper_at(tokens, behind) in ("AT", "BEFORE", "END")
        and tk.upper_at(tokens, behind + 1) == "("
    ):
        what = f"CHANGES ... {tokens[behind].upper}"
        why = "A run sees what has changed since the last one."
        raise not_supported(tokens[behind].span, what, why=why, hint="Leave the clause out.")
    return _Changes(relation, with_deletes, place, quote(parts[-1]))


def _spelled(tokens: Tokens, change_refs: list[_Changes], target: st.RelationRef) -> str:
    """The statement with ctsql's words for SELF, CHANGES and METADATA$ACTION.

    Raises NOT_SUPPORTED for other columns of Snowflake's own.
    """
    span = span_of(tokens)
    edits, asked = [], False
    for index, token in enumerate(tokens):
        if token.upper == _METADATA and tk.upper_at(tokens, index + 1) == "$":
            name = tokens[index + 2] if index + 2 < len(tokens) else token
            place = Span(token.source, token.start, name.stop)
            if name.upper != "ACTION":
                why = _NOT_ACTION.get(name.upper, "There is no such column.")
                hint = "For a key that went and did not come back: METADATA$ACTION = 'DELETE' AND "
                hint += "k NOT IN (SELECT k FROM t CHANGES (INFORMATION => APPEND_ONLY))"
                raise not_supported(place, place.text, why=why, hint=hint)
            asked = True
            edits.append(st.Edit(span=place, text=backtick(_ACTION)))
        in_changes = any(c.span.start <= token.start < c.span.stop for c in change_refs)
        is_self = token.kind is tk.Kind.WORD and token.upper == "SELF"
        if is_self and not in_changes and tk.upper_at(tokens, index - 1) not in (".", "AS"):
            edits.append(st.Edit(span=token.span, text=target.span.text))
    for changes in change_refs:
        stop = next(i for i, t in enumerate(tokens) if t.stop == changes.span.stop)
        edits.append(st.Edit(span=changes.span, text=_rows(changes, tokens, stop + 1, asked=asked)))
    return splice(span, edits).text


def _rows(changes: _Changes, tokens: Tokens, behind: int, *, asked: bool) -> str:
    """The rows that have changed, with METADATA$ACTION where the statement asks for it."""
    name = span_of(changes.relation).text
    alias = "" if _has_alias(tokens, behind) else f" AS {changes.alias}"
    if not asked and not changes.with_deletes:
        return f"inserts({name}){alias}"
    action = f", {{}} AS {backtick(_ACTION)}" if asked else ""
    rows = f"SELECT *{action.format(quote_text('INSERT'))} FROM inserts({name})"
    if changes.with_deletes:
        rows += f" UNION ALL SELECT *{action.format(quote_text('DELETE'))} FROM deletes({name})"
    return f"({rows}){alias}"


_NO_ALIAS = tk.word_set(
    "ON WHERE JOIN INNER LEFT RIGHT FULL CROSS NATURAL GROUP ORDER HAVING LIMIT UNION EXCEPT "
    "INTERSECT MINUS QUALIFY WINDOW USING SEMI ANTI LATERAL PIVOT UNPIVOT SORT DISTRIBUTE CLUSTER"
)


def _has_alias(tokens: Tokens, index: int) -> bool:
    if index >= len(tokens):
        return False
    return tokens[index].upper == "AS" or (
        tokens[index].is_name and tokens[index].upper not in _NO_ALIAS
    )


def _with_contents(body: str, target: st.RelationRef) -> str:
    """The statement in which what has no mark is read whole.

    Raises what reading the body of a task raises, with places in the compiled text.
    """
    source = Source(f"({body})", f"{target.span.source.name} (compiled)")
    (statement, *more) = read_body(tokenise(source.whole()), source.whole(), target.span.text)
    if more:
        raise invalid(more[0].span, "REFRESH USING takes one statement", "", _HINT)
    return splice(statement.span, read_whole(statement)).text
