"""Decides whether a flow's query may be run over what comes at each T. Pure.

The query of a streaming table is over all rows that ever come. A flow runs it over the rows of one
T, so it must give of all rows together what it gives of the parts: every operator above a stream
takes its rows one by one. A filter, a projection, UNION ALL, LATERAL VIEW, and a join with what is
read whole do; an aggregate, DISTINCT, a window and a join of two streams do not.
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
    below: exp.Expr = stream
    for node in _ancestors(stream):
        match node:
            case exp.Select():
                yield from _in_select(node, below, streams)
            case exp.Union():
                yield from _in_modifiers(node)
                if node.args.get("distinct"):
                    yield "UNION without ALL"
            case exp.SetOperation():
                yield type(node).__name__.upper()
            case exp.CTE():
                return  # where its name stands is looked at by itself
            case exp.Subquery():
                yield from _in_modifiers(node)
        below = node


def _in_select(select: exp.Select, below: exp.Expr, streams: list[exp.Table]) -> Iterator[str]:
    is_source = isinstance(below, exp.From | exp.Join | exp.Lateral)
    if not is_source:
        yield "a subquery in an expression"
        return
    yield from _in_modifiers(select)
    for expression in select.expressions:
        for node in expression.walk(prune=lambda n: isinstance(n, exp.Query)):
            if isinstance(node, exp.Window):
                yield "a window"
            elif isinstance(node, exp.AggFunc | exp.Any) or fold(_called(node)) in AGGREGATES:
                yield "an aggregate"
    sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
    with_stream = [s for s in sources if s is not None and _holds(s, streams)]
    if len(with_stream) > 1:
        yield "a join of two streams"
    for join in select.args.get("joins") or ():
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "")
        place = sources.index(join)
        before = any(_holds(s, streams) for s in sources[:place] if s is not None)
        if before and side not in _KEEPS_STREAM_LEFT:
            yield f"{side} JOIN"
        if _holds(join, streams) and (
            side not in _KEEPS_STREAM_RIGHT or kind.upper() in ("SEMI", "ANTI")
        ):
            yield f"{side or kind.upper()} JOIN"


def _in_modifiers(query: exp.Expr) -> Iterator[str]:
    return (words for name, words in _CLAUSES.items() if query.args.get(name))


def _called(node: exp.Expr) -> str:
    return node.name if isinstance(node, exp.Anonymous) else ""


def _holds(source: exp.Expr, streams: list[exp.Table]) -> bool:
    """Whether a stream is among the relations of FROM or JOIN, and not in a condition of it."""
    inside = source.this
    return any(t is inside or any(a is inside for a in _ancestors(t)) for t in streams)
