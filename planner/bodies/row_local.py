"""Decides whether a task's changes at several Ts may be computed together. Pure.

A body of INSERTs that process the inserted rows one by one may run once over the rows of many Ts.
Each row has its T, which is also the value of now(). The results are then divided by T.

A query qualifies if it is ``SELECT ... FROM input [WHERE ...]`` with no word that could combine
rows, and only functions known to read one row. This is decided from tokens: some qualifying queries
are missed, none is accepted wrongly.
"""

from dataclasses import replace
from itertools import pairwise

from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import TIME
from ctsql.planner import nodes as lp
from ctsql.planner.ivm.algebra.nodes import Expr
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.spark_functions import CLOCKS, SCALARS
from ctsql.planner.ivm.parse.clock_comparisons import read_expiries
from ctsql.planner.ivm.parse.expressions import conjuncts, texts, unwrapped
from ctsql.planner.syntax.ast import Edit, SqlText
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens, tokenise, word_set

_COMBINING = word_set(
    """DISTINCT ALL GROUP HAVING WINDOW OVER ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET UNION EXCEPT
    INTERSECT MINUS JOIN LATERAL PIVOT UNPIVOT TABLESAMPLE EXISTS WITH QUALIFY VALUES TABLE
    RECURSIVE TRANSFORM REDUCE MAP |> ->"""
)
_BY_ROW = SCALARS | CLOCKS | {"try_cast", "varchar"}
# Words that a parenthesis may follow, and that are no functions.
_BEFORE_PARENTHESIS = word_set(
    "SELECT WHERE AND OR NOT IN LIKE RLIKE BETWEEN CASE WHEN THEN ELSE AS IS FROM BY"
)


def is_row_local(plan: lp.TaskWrite) -> bool:
    """Whether the changes of several times may be computed together."""
    queries = [s.query for s in plan.transaction.statements if isinstance(s, lp.Insert)]
    queries += [n for v in plan.input_views for n in lp.descend(v) if isinstance(n, lp.Query)]
    # A column is added to each query, which ``t.*`` would have as well.
    pairs = (pair for query in queries for pair in pairwise(tokenise(query.sql.span)))
    transaction = plan.transaction
    return (
        transaction.iterations == 1
        and plan.trim is None
        and len({getattr(node, "object_id", None) for node in plan.inputs}) == 1
        and all(isinstance(node, lp.InsertsInput) for node in plan.inputs)
        and all(isinstance(s, lp.Insert) and _is_by_row(s) for s in transaction.statements)
        and not plan.outputs
        and not transaction.has_keys
        and not any(b.upper == "*" and a.upper == "." for a, b in pairs)
    )


def carry_time(transaction: lp.Transaction) -> lp.Transaction:
    """The same body with :data:`TIME` carried from the input, which now() means; if row local."""
    statements = [
        replace(s, query=_add_time(s.query))
        for s in transaction.statements
        if isinstance(s, lp.Insert)
    ]
    return replace(transaction, statements=tuple(statements))


def carry_time_below(
    rows: lp.InsertsInput | lp.ViewReference,
) -> lp.InsertsInput | lp.ViewReference:
    """The same for the view or condition of an input."""
    columns = (*rows.columns, TIME)
    if isinstance(rows, lp.InsertsInput):
        return replace(rows, columns=columns)
    return replace(rows, columns=columns, query=_add_time(rows.query))


def only_loses_rows(plan: lp.TaskWrite) -> bool:
    """Whether a body that runs as time passes only deletes rows, which never return.

    FROM RETAIN ... WHILE (until > now()) is one. A run deletes all that an earlier run would have,
    so an earlier run that no reader sees can be left out.
    """
    transaction = plan.transaction
    deletes = [s for s in transaction.statements if isinstance(s, lp.Delete)]
    inserts = [s for s in transaction.statements if isinstance(s, lp.Insert)]
    return (
        transaction.iterations == 1
        and not plan.outputs
        and not transaction.has_keys
        and len(deletes) + len(inserts) == len(transaction.statements)
        and all(map(_is_by_row, inserts))  # of no rows they give none
        and all(map(_lets_go_for_good, deletes))
    )


def _lets_go_for_good(delete: lp.Delete) -> bool:
    """Whether it deletes rows whose condition remains false once it is: ``(p) IS NOT TRUE``."""
    where = delete.where
    if where is None or where.relations or where.sql.nondeterministic or delete.ctes is not None:
        return False
    *condition, first, second, third = tokenise(where.sql.span)
    if [first.upper, second.upper, third.upper] != ["IS", "NOT", "TRUE"]:
        return False
    clocks = {call.span.start: call for call in where.sql.clocks}
    try:
        if len(unwrapped(condition)) == len(condition):
            return False
        expiries = [
            expiry
            for piece in conjuncts(condition)
            if any(token.start in clocks for token in piece)
            for expiry in read_expiries(piece, clocks, lambda value: Expr(tuple(texts(value))))
        ]
    except Refusal:
        return False
    return not any(expiry.is_entry for expiry in expiries)


def takes_rows_one_by_one(sql: SqlText) -> bool:
    """Whether each row of a query is computed from exactly one row of its one relation."""
    fixed = not (sql.clocks or sql.nondeterministic or sql.parameters)
    return fixed and len(sql.relations) == 1 and _is_plain(tokenise(sql.span))


def _is_by_row(statement: lp.Insert) -> bool:
    query = statement.query
    others = [n for d in statement.defaults for n in lp.descend(d) if isinstance(n, lp.Query)]
    texts = [query.sql, *(q.sql for q in others)]
    if any(t.nondeterministic or t.parameters for t in texts):
        return False
    if any(q.relations for q in others):
        return False
    if len(query.relations) != 1 or not isinstance(query.relations[0], lp.InsertsInput):
        return False
    return _is_plain(tokenise(query.sql.span))


def _is_plain(tokens: Tokens) -> bool:
    words = [t.upper for t in tokens if t.kind in (Kind.WORD, Kind.SYMBOL)]
    if words[:1] != ["SELECT"] or words.count("SELECT") > 1 or words.count("FROM") > 1:
        return False
    if not _COMBINING.isdisjoint(words) or _from(tokens) is None:
        return False
    calls = [
        t
        for t, following in pairwise(tokens)
        if following.upper == "(" and (t.is_name or t.upper in (")", "]"))
    ]
    return all(t.upper.lower() in _BY_ROW or t.upper in _BEFORE_PARENTHESIS for t in calls)


def _from(tokens: Tokens) -> Token | None:
    return next((t for _, t in tk.at_depth_0(tokens) if t.upper == "FROM"), None)


def _add_time(query: lp.Query) -> lp.Query:
    (relation,) = query.relations
    assert isinstance(relation, lp.InsertsInput | lp.ViewReference)  # is_row_local() saw to it
    query_with_time = replace(query, relations=(carry_time_below(relation),))
    tokens = tokenise(query.sql.span)
    last = _from(tokens)
    if last is None:
        return query_with_time  # a condition after ON INPUT: all columns are selected
    columns = ", ".join(backtick_all(relation.columns))
    # Each * that means all columns of the input.
    edits = [
        Edit(span=star.span, text=columns)
        for before, star in pairwise(tokens)
        if star.upper == "*" and before.upper in ("SELECT", ",", "(")
    ]
    edits.append(Edit(span=replace(last.span, stop=last.start), text=f", {TIME} "))
    sql = replace(query.sql, edits=(*query.sql.edits, *edits))
    return replace(query_with_time, sql=sql)
