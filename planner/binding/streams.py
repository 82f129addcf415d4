"""Decides whether a flow's query may be run over what comes at each T. Pure.

The query of a streaming table is over all rows that ever come. A flow runs it over the rows of one
T, so it must give of all rows together what it gives of the parts: every operator above a stream
takes its rows one by one. A filter, a projection, UNION ALL of streams, LATERAL VIEW, and a join
with what is read whole do; an aggregate, DISTINCT, a window and a join of two streams do not. What
is read whole beside a stream, and not joined with it, would be written at each T again.
"""

from collections.abc import Iterator

from sqlglot import exp

from ctsql.catalog.errors import CtsqlError, not_supported
from ctsql.catalog.names import fold
from ctsql.catalog.spans import Span
from ctsql.planner.ivm.algebra.spark_functions import AGGREGATES
from ctsql.planner.syntax.ast import SqlText
from ctsql.planner.syntax.tokens.sqltext import query_tree

_VIEW = "Type: CREATE MATERIALIZED VIEW ..., which keeps the query over all rows."
_CLAUSES = {
    "group": "GROUP BY",
    "having": "HAVING",
    "distinct": "DISTINCT",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "pivots": "PIVOT",
    "windows": "WINDOW",
    "sample": "TABLESAMPLE",
}
_KEEPS_STREAM_LEFT = ("", "LEFT")
_KEEPS_STREAM_RIGHT = ("", "RIGHT")


def check_appends(query: SqlText, place: Span) -> None:
    """Refuse a query that gives other rows over the parts than over all.

    Args:
        query: as compiled, where ``inserts(t)`` is a stream.

    Raises:
        NOT_SUPPORTED: with the clause.
    """
    streams = _streams(query_tree(query))
    if streams and all(any(isinstance(a, exp.CTE) for a in _ancestors(s)) for s in streams):
        raise _refusal("a stream in a WITH that nothing reads", place)
    for stream in streams:
        for why in _combining(stream, streams):
            raise _refusal(why, place)


def _refusal(what: str, place: Span) -> CtsqlError:
    what = what if "stream" in what else f"{what} over a stream"
    why = "A flow runs over the rows of one T, and what it wrote stays."
    return not_supported(place, what, why=why, hint=_VIEW)


def _streams(tree: exp.Expr) -> list[exp.Table]:
    """The places of the streams, and of the common table expressions that are made of them."""
    tables = list(tree.find_all(exp.Table))
    insert_calls = [t for t in tables if _is_insert(t)]
    cte_names: set[str] = set()
    while True:
        around = {
            fold(cte.alias)
            for t in insert_calls
            for cte in _ancestors(t)
            if isinstance(cte, exp.CTE)
        }
        if around <= cte_names:
            return insert_calls
        cte_names |= around
        insert_calls = [
            t for t in tables if _is_insert(t) or (not t.db and fold(t.name) in cte_names)
        ]


def _is_insert(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Func) and fold(table.this.name) == "inserts"


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _combining(stream: exp.Table, streams: list[exp.Table]) -> Iterator[str]:
    """What combines rows of a stream with one another, from the stream outwards."""
    yield from _in_modifiers(stream)
    yield from _in_joins(stream, is_stream=True, streams=streams)
    below: exp.Expr = stream
    for node in _ancestors(stream):
        match node:
            case exp.Select():
                yield from _in_select(node, below, stream, streams)
            case exp.Union():
                yield from _in_modifiers(node)
                if node.args.get("distinct"):
                    yield "UNION without ALL"
                elif not all(_is_above(s, streams) for s in (node.left, node.right)):
                    yield "UNION ALL of a stream and of what is read whole"
            case exp.SetOperation():
                yield type(node).__name__.upper()
            case exp.CTE():
                return  # where its name stands is looked at by itself
            case exp.Table():
                yield from _in_joins(node, is_stream=False, streams=streams)
            case exp.Subquery():
                yield from _in_modifiers(node)
                is_stream = _is_above(node.this, streams)
                yield from _in_joins(node, is_stream=is_stream, streams=streams)
        below = node


def _in_select(
    select: exp.Select, below: exp.Expr, stream: exp.Table, streams: list[exp.Table]
) -> Iterator[str]:
    is_source = isinstance(below, exp.From | exp.Join | exp.Lateral)
    if not is_source or not _is_above(below.this, [stream]):
        yield "a subquery in an expression"
        return
    yield from _in_modifiers(select)
    for expression in select.expressions:
        for node in expression.walk(prune=lambda n: isinstance(n, exp.Query)):
            if isinstance(node, exp.Window):
                yield "a window"
            elif isinstance(node, exp.AggFunc | exp.Any) or fold(_called(node)) in AGGREGATES:
                yield "an aggregate"
    first = select.args.get("from_")
    is_stream = first is not None and _is_above(first.this, streams)
    yield from _in_joins(select, is_stream=is_stream, streams=streams)


def _in_joins(node: exp.Expr, *, is_stream: bool, streams: list[exp.Table]) -> Iterator[str]:
    """What the joins behind a relation combine; they are in the SELECT, or in parentheses.

    Args:
        is_stream: whether the relation in front of them is made of a stream.
    """
    joins = node.args.get("joins") or ()
    are_streams = [is_stream, *(_is_above(join.this, streams) for join in joins)]
    if sum(are_streams) > 1:
        yield "a join of two streams"
    for place, join in enumerate(joins, start=1):
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "")
        if any(are_streams[:place]) and side not in _KEEPS_STREAM_LEFT:
            yield f"{side} JOIN"
        if are_streams[place] and (
            side not in _KEEPS_STREAM_RIGHT or kind.upper() in ("SEMI", "ANTI")
        ):
            yield f"{side or kind.upper()} JOIN"


def _in_modifiers(query: exp.Expr) -> Iterator[str]:
    return (words for name, words in _CLAUSES.items() if query.args.get(name))


def _called(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Anonymous) else ""


def _is_above(tree: exp.Expr, streams: list[exp.Table]) -> bool:
    """Whether a stream stands in a tree, or is it."""
    return any(t is tree or any(a is tree for a in _ancestors(t)) for t in streams)
