"""Reads TEST statements.

    TEST 'name'
        [GIVEN [AT time] change [AND change ...]] ...
        [THEN  [AT time] change [AND change ...]] ...
        EXPECT ... [EXPECT ...]
    change:  t [(columns)] VALUES (...), ... | t [(columns)] AS (query) | INSERT, UPDATE, DELETE
             or MERGE on t
    EXPECT:  x [(columns)] [AFTER n] VALUES (...), ... | x [(columns)] [AFTER n] AS (query)
             (query) [AFTER n] VALUES ... | AS (query)
             NO ROWS IN x [AFTER n] | NO CHANGE IN x [AFTER n]
             ERROR condition [LIKE 'pattern'] [IN x] [AFTER n]

A change is the user's SQL. It ends before the word that begins the next part.
"""

from dataclasses import replace

from ctsql.catalog.errors import CtsqlError, bad_option
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.body import QUERY_WORDS
from ctsql.planner.syntax.statements.columns import read_columns
from ctsql.planner.syntax.statements.queries import DML_VERBS, read_dml, read_instant
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, span_of

_AT_HINT = "Type: AT TIMESTAMP '2026-01-31 12:00:00', in UTC, or AT milliseconds since 1970."
_PARTS = ("GIVEN", "THEN", "EXPECT")
_NOT_NAMES = ("VALUES", "AS", "AFTER", "IN", "AND", *_PARTS)
# Words after which EXPECT or GIVEN is a column's name.
_WANT_OPERAND = ("SET", "WHERE", "AND", "OR", "NOT", "ON", "BY", "WHEN", "THEN", "ELSE", "BETWEEN")
_EXPECT_HINT = (
    "Type one of: EXPECT x [AFTER n] VALUES (...), EXPECT NO ROWS IN x, EXPECT NO CHANGE IN x, "
    "EXPECT ERROR condition [IN x]"
)


def read_test(cursor: TokenCursor) -> st.Test:
    """Read what follows the word TEST; raises SYNTAX_ERROR, and as its parts of SQL do."""
    name = cursor.string("the test's name in quotes", hint="Type: TEST 'name' GIVEN ... EXPECT ...")
    steps: list[st.TestStep] = []
    while cursor.at("GIVEN") or cursor.at("THEN"):
        if cursor.at("GIVEN") and any(s.span.text[:4].upper() == "THEN" for s in steps):
            raise syntax_error(cursor.here, "GIVEN comes before THEN", hint="Type THEN here.")
        steps.append(_step(cursor))
    expectations: list[st.Expectation] = []
    while cursor.at("EXPECT"):
        expectations.append(_expectation(cursor, steps))
    if not expectations:
        words = _PARTS if not steps else ("AND", "THEN", "EXPECT")
        hint = "" if cursor.current is None else did_you_mean(cursor.upper(), _PARTS)
        cursor.fail("EXPECT" if steps else "GIVEN or EXPECT", words=words, hint=hint)
    if cursor.current is not None:
        hint = "Changes come before the first EXPECT; EXPECT x AFTER n checks an earlier step."
        is_step = cursor.upper() in ("GIVEN", "THEN")
        cursor.fail("EXPECT or the end of the statement", hint=hint if is_step else "")
    return st.Test(
        span=cursor.span,
        name=name.text,
        name_span=name.span,
        steps=tuple(steps),
        expectations=tuple(expectations),
    )


# ---- steps


def _step(cursor: TokenCursor) -> st.TestStep:
    begin = cursor.take().start
    at = None
    is_time = any(t.kind in (Kind.STRING, Kind.NUMBER) for t in cursor.rest[1:2])
    if cursor.at("AT") and (cursor.upper(1) == "TIMESTAMP" or is_time):
        cursor.take()
        at = read_instant(cursor, _AT_HINT)
    changes: list[st.Dml] = []
    columns: list[tuple[st.ColumnDef, ...]] = []
    is_empty = at is not None and (cursor.current is None or cursor.upper() in _PARTS)
    while not is_empty:
        change, column_defs = _change(cursor)
        changes.append(change)
        columns.append(column_defs)
        if not cursor.accept("AND"):
            break
    return st.TestStep(
        span=cursor.since(begin), at=at, changes=tuple(changes), columns=tuple(columns)
    )


def _change(cursor: TokenCursor) -> tuple[st.Dml, tuple[st.ColumnDef, ...]]:
    """One change, and its columns if they are declared with types."""
    is_table = cursor.upper(1) in ("VALUES", "AS", "(", ".")  # one that is called as a verb
    if cursor.upper() in DML_VERBS and not is_table:
        return read_dml(cursor.until(_end_of_part(cursor), "a change")), ()
    begin = cursor.here
    target = cursor.relation("a table, or INSERT, UPDATE, DELETE or MERGE", aliased=False)
    edits = [st.Edit(span=begin.front, text="INSERT INTO ")]
    column_defs: tuple[st.ColumnDef, ...] = ()
    if cursor.at("(") and cursor.upper(1) not in QUERY_WORDS:
        place = cursor.here
        list_tokens = cursor.group()
        is_typed = any(len(group) > 1 for group in tk.cut_at_commas(list_tokens, are_columns=True))
        columns = read_columns(list_tokens, place, typed=is_typed)
        if is_typed:
            column_defs = columns
            names = ", ".join(c.span.text for c in columns)
            edits.append(st.Edit(span=span_of(list_tokens), text=names))
    query = _rows(cursor, edits)
    span = Span(begin.source, begin.start, query.span.stop)
    text = replace(query, span=span, edits=(*edits, *query.edits))
    return st.Dml(span=span, verb="INSERT", target=target, text=text), column_defs


def _rows(cursor: TokenCursor, edits: list[st.Edit]) -> st.SqlText:
    """Read VALUES (...), ... or AS (query); the word AS is cut from what Spark runs."""
    if cursor.at("VALUES"):
        tokens = cursor.until(_end_of_part(cursor), "rows")
        try:
            return analyse(tokens, form="query")
        except CtsqlError as problem:
            _refuse_slip(tokens, problem)
            raise
    if not cursor.at("AS"):
        cursor.fail("VALUES or AS (query)", words=("VALUES", "AS"))
    edits.append(st.Edit(span=cursor.take().span, text=""))
    return _query(cursor)[0]


def _refuse_slip(tokens: Tokens, cause: CtsqlError) -> None:
    """Raise SYNTAX_ERROR at a word after VALUES that is a misspelt begin of another part."""
    for index, token in tk.at_depth_0(tokens):
        near = did_you_mean(token.upper, _PARTS) if index and token.kind is Kind.WORD else ""
        if near and cause.condition == "SYNTAX_ERROR":
            message = f'found "{token.text}", expected THEN or EXPECT'
            raise syntax_error(token.span, message, hint=near, cause=cause)


def _query(cursor: TokenCursor) -> tuple[st.SqlText, Tokens]:
    begin = cursor.position
    inside = cursor.group("a query")
    tokens = cursor.tokens[begin : cursor.position]
    return analyse(tokens, form="query"), inside


def _end_of_part(cursor: TokenCursor) -> int:
    """The number of tokens up to the next part of the test."""
    rest = cursor.rest
    waiting = 0  # words WHEN whose THEN has not come yet
    for index, token in tk.at_depth_0(rest):
        if index == 0:
            continue
        if token.upper == "WHEN":
            waiting += 1
        elif token.upper == "THEN" and waiting:
            waiting -= 1
        elif token.upper == "THEN" or _begins_part(rest, index):
            return index
    return len(rest)


def _begins_part(rest: Tokens, index: int) -> bool:
    word = tk.upper_at(rest, index)
    before = rest[index - 1]
    is_operand = before.kind is Kind.SYMBOL and before.upper not in (")", "]", "*")
    if is_operand or before.upper in _WANT_OPERAND:
        return False
    if word in ("EXPECT", "GIVEN"):
        behind = rest[index + 1 : index + 2]
        return not behind or behind[0].is_name or behind[0].upper == "("
    return word == "AND" and index + 1 < len(rest) and _begins_change(rest, index + 1)


def _begins_change(rest: Tokens, index: int) -> bool:
    """Whether a change, not a condition, begins there."""
    if tk.upper_at(rest, index) in DML_VERBS and rest[index + 1 : index + 2]:
        return rest[index + 1].is_name
    if not rest[index].is_name:
        return False
    behind = index + 2 * len(tk.name_chain(rest, index)) - 1
    if tk.upper_at(rest, behind) == "(":
        behind = tk.closing(rest, behind) + 1
    return tk.upper_at(rest, behind) == "VALUES" or tk.words_are(rest, behind, "AS", "(")


# ---- expectations


def _expectation(cursor: TokenCursor, steps: list[st.TestStep]) -> st.Expectation:
    begin = cursor.take().start
    if cursor.at("NO") and cursor.upper(1) in ("ROWS", "ROW", "CHANGE", "CHANGES"):
        return _nothing(cursor, begin, steps)
    words = (t.upper for t in cursor.rest[1:2] if t.kind is Kind.WORD)
    if cursor.at("ERROR") and any(word not in _NOT_NAMES for word in words):
        return _error(cursor, begin, steps)
    is_ordered = False
    if cursor.at("("):
        query, inside = _query(cursor)
        is_ordered = any(tk.words_are(inside, i, "ORDER", "BY") for i, _ in tk.at_depth_0(inside))
    else:
        if not cursor.is_at_name or cursor.upper() in _NOT_NAMES:
            cursor.fail("the name of an object", hint=_EXPECT_HINT)
        subject = cursor.relation("the name of an object", aliased=False)
        query = st.rows_of(subject, ", ".join(c.span.text for c in _columns(cursor)) or "*")
    after = _after(cursor, steps)
    begins_rows = cursor.position
    rows = _rows(cursor, [])
    return st.ExpectRows(
        span=Span(cursor.span.source, begin, rows.span.stop),
        after=after,
        query=query,
        rows=rows,
        cells=tuple(
            tuple(map(span_of, row))
            for row in tk.rows_of_values(cursor.tokens[begins_rows : cursor.position])
        ),
        is_ordered=is_ordered,
    )


def _columns(cursor: TokenCursor) -> tuple[st.ColumnDef, ...]:
    if not cursor.at("("):
        return ()
    place = cursor.here
    return read_columns(cursor.group(), place, typed=False)


def _nothing(cursor: TokenCursor, begin: int, steps: list[st.TestStep]) -> st.Expectation:
    cursor.expect("NO")
    is_rows = cursor.take().upper.startswith("ROW")
    cursor.expect("IN", hint=f"Type: EXPECT NO {'ROWS' if is_rows else 'CHANGE'} IN x")
    subject = cursor.relation("the name of an object", aliased=False)
    after = _after(cursor, steps, least=0 if is_rows else 1)
    span = cursor.since(begin)
    if is_rows:
        return st.ExpectRows(span=span, after=after, query=st.rows_of(subject))
    if not steps:
        raise syntax_error(span, "there is no step that could change anything")
    return st.ExpectNoChange(span=span, after=after, subject=subject)


def _error(cursor: TokenCursor, begin: int, steps: list[st.TestStep]) -> st.ExpectError:
    cursor.expect("ERROR")
    condition = cursor.take()
    like = cursor.string("a pattern in quotes").text if cursor.accept("LIKE") else None
    subject = None
    if cursor.accept("IN"):
        subject = cursor.relation("the name of an object", aliased=False)
    after = _after(cursor, steps, least=0 if subject else 1)
    if subject is None and not steps:
        raise syntax_error(condition.span, "there is no step that could be refused")
    return st.ExpectError(
        span=cursor.since(begin),
        after=after,
        condition=condition.text.upper(),
        condition_span=condition.span,
        like=like,
        subject=subject,
    )


def _after(cursor: TokenCursor, steps: list[st.TestStep], *, least: int = 0) -> int | None:
    """Read AFTER n, if it follows; 0 is before the first step."""
    if not cursor.accept("AFTER"):
        return None
    token = cursor.current
    if token is None or token.kind is not Kind.NUMBER or not token.text.isdigit():
        cursor.fail("the number of a step", hint="GIVEN and THEN are counted from 1.")
    number = int(cursor.take().text)
    if not least <= number <= len(steps):
        detail = f"The test has {len(steps)} step(s): each GIVEN and each THEN is one."
        raise bad_option(token.span, "AFTER", detail)
    return number
