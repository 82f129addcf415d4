"""Lowering of queries: the user's own text, run by Spark over our DataFrames.

Each relation is a temporary view while Spark analyses the text, and its name replaces the user's in
the text. The text is never printed from a tree.

A foreign writer may drop or rename a column of a table. Spark refuses a text that names it, unless
another relation or item of the SELECT has the name. Then the rows would silently be wrong. So a
text over such a relation is analysed a second time, with all columns that it was bound to. If the
lost column is in Spark's optimized plan, or there is no plan, the text reads it. Columns of ``*``
count if they are used.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import backtick_all, fold, quote
from ctsql.catalog.reserved_columns import DIFF
from ctsql.catalog.spans import Span
from ctsql.planner import nodes as lp
from ctsql.planner.lowering.context import Context, temporary_view
from ctsql.planner.syntax import RewrittenText, rewrite
from ctsql.planner.syntax.ast import RelationRef, SqlText
from ctsql.planner.syntax.tokens.rewrite import concatenate

Key = TypeVar("Key")
_MARK = "__ct_lost_"
_KNOWN_MAX = 1000
_known_keys: dict[Hashable, None] = {}  # texts that read no lost column


@dataclass(frozen=True, slots=True)
class RelationRows:
    """The rows of a relation that a text reads."""

    frame: DataFrame
    name: str = ""  # the object's name
    lost_columns: tuple[str, ...] = ()  # its columns when the text was bound


def run_on(
    relations: Sequence[RelationRows],
    run: Callable[[Sequence[DataFrame]], DataFrame],
    span: Span,
    text: Hashable,
    optimized_text: Callable[[DataFrame], str],
) -> DataFrame:
    """Give Spark a text, and refuse one that reads a column which a relation has lost.

    Args:
        run: gives Spark the text over frames for the relations. text: a key of the text.

    Raises UNKNOWN_COLUMN, and Spark's errors.
    """
    frames = [relation.frame for relation in relations]
    if not any(relation.lost_columns for relation in relations):
        return run(frames)

    def check_names() -> None:
        key = text, tuple((r.frame.schema.json(), r.name, r.lost_columns) for r in relations)
        if key in _known_keys:
            return
        lost_column = _lost_and_read(relations, run, optimized_text)
        if lost_column:
            raise _lost_column(span, *lost_column)
        if len(_known_keys) >= _KNOWN_MAX:
            _known_keys.clear()
        _known_keys[key] = None

    try:
        rows = run(frames)
    except CtsqlError as problem:
        if problem.condition != "UNKNOWN_COLUMN":  # which names the column, at its place
            check_names()
        raise
    check_names()
    return rows


def _lost_and_read(
    relations: Sequence[RelationRows],
    run: Callable[[Sequence[DataFrame]], DataFrame],
    optimized_text: Callable[[DataFrame], str],
) -> tuple[str, str] | None:
    """The name of a relation and of a lost column that the text reads; None for none."""
    columns = [(r.name, column) for r in relations for column in r.lost_columns]
    try:
        plan = optimized_text(run([_as_bound(r, columns) for r in relations]))
    except CtsqlError as problem:
        columns_named = [one for one in columns if fold(one[1]) in fold(problem.message)]
        return (columns_named or columns)[0]
    match = re.search(_MARK + r"(\d+)", plan)
    return None if match is None else columns[int(match.group(1))]


def _as_bound(relation: RelationRows, columns: Sequence[tuple[str, str]]) -> DataFrame:
    """A relation whose rows Spark does not know, with its lost columns, which have no type."""
    frame = relation.frame
    nothing = frame.sparkSession.sparkContext.emptyRDD()
    rows = frame.sparkSession.createDataFrame(nothing, T.StructType(frame.schema.fields))
    marks = [
        F.raise_error(F.lit(f"{_MARK}{columns.index((relation.name, c))}")).alias(c)
        for c in relation.lost_columns
    ]
    return rows.select("*", *marks)


def _lost_column(span: Span, relation: str, column: str) -> CtsqlError:
    return error(
        "UNKNOWN_COLUMN",
        span=span,
        column=column,
        detail=f'"{relation}" had this column when the object was defined, and has lost it. '
        f"{quote(column)} or * would now mean something else, so nothing is computed.",
        hint=f"Restore the column in {quote(relation)}, or replace the definition.",
    )


def lower_relation(node: lp.Node, context: Context) -> DataFrame:
    """The rows of a relation a query reads."""
    return _lower_relation(node, context).frame


def _lower_relation(node: lp.Node, context: Context) -> RelationRows:
    sources, at = context.sources, context.at
    match node:
        case lp.InsertsInput():
            return _present(sources.inserts(node.object_id, at), node)
        case lp.DeletesInput():
            return _present(sources.deletes(node.object_id, at), node)
        case lp.ChangesInput():
            return _present(sources.changes(node.object_id, at), node)
        case lp.NormalReference():
            return _present(sources.contents(node.object_id, at), node)
        case lp.ViewReference():
            return _lower_view(node, context)
        case _:
            raise TypeError(f"{type(node).__name__} is no relation of a query")


def _lower_view(node: lp.ViewReference, context: Context) -> RelationRows:
    """The rows of a plain view, or of an object for which a condition is true."""
    query, below = node.query, node.query.relations[0] if node.query.relations else None
    if not isinstance(below, lp.RelationLeaf) or below.object_id != node.object_id:
        return RelationRows(lower_query(query, context).toDF(*node.columns))
    # SELECT * with a condition: what the object has lost is lost here, too, and not read by that.
    read = _lower_relation(below, context)
    names = [c for c in node.columns if c not in read.lost_columns]

    def run(frames: Sequence[DataFrame]) -> DataFrame:
        (ref,) = query.sql.relations
        return _run([query], {ref: frames[0]}, context, {}).select(*backtick_all(names))

    rows = run_on([read], run, query.sql.span, (query.sql, *names), context.sources.optimized_text)
    return RelationRows(rows.toDF(*names), str(node.name), read.lost_columns)


def _present(rows: DataFrame, node: lp.RelationLeaf) -> RelationRows:
    """The existing columns; Spark refuses a text that names another, at its place.

    Where it finds something else by that name, :func:`run_on` refuses the text.
    """
    columns = list(node.columns)
    if rows.columns == columns:
        return RelationRows(rows, str(node.name))
    diff = [rows[DIFF].alias(columns.pop())] if isinstance(node, lp.ChangesInput) else []
    there = {fold(c) for c in rows.columns}
    present = backtick_all([c for c in columns if fold(c) in there])
    lost_columns = tuple(c for c in columns if fold(c) not in there)
    return RelationRows(rows.select(*present, *diff), str(node.name), lost_columns)


def lower_query(
    query: lp.Query,
    context: Context,
    rows: Mapping[int, DataFrame] | None = None,
    parameters: Sequence[str] = (),
) -> DataFrame:
    """The result of a query, lazily.

    ``rows`` replace relations by their place: the output itself in a task's body, files.
    """
    return run_pieces([query], context, lambda _: rows, parameters=parameters)


def run_pieces(
    pieces: Sequence[str | lp.Query],
    context: Context,
    rows_of: Callable[[Sequence[lp.Node]], Mapping[int, DataFrame] | None] = lambda _: None,
    views: Mapping[str, DataFrame] | None = None,
    parameters: Sequence[str] = (),
) -> DataFrame:
    """The result of a statement that combines texts of ctsql and of the user.

    ``rows_of`` replaces relations of a text by their place; ``{name}`` in texts of ctsql is one of
    ``views``.
    """
    read: dict[RelationRef, RelationRows] = {}
    queries = [p for p in pieces if isinstance(p, lp.Query)]
    for query in queries:
        relations = relation_rows(query.relations, context, rows_of(query.relations))
        for ref, relation in zip(query.sql.relations, relations, strict=True):
            read.setdefault(ref, relation)

    def run(frames: Sequence[DataFrame]) -> DataFrame:
        return _run(pieces, dict(zip(read, frames, strict=True)), context, views or {}, parameters)

    if not queries:
        return run([])
    texts = (*(p.sql if isinstance(p, lp.Query) else p for p in pieces), *parameters)
    optimized_text = context.sources.optimized_text
    return run_on([*read.values()], run, queries[0].sql.span, texts, optimized_text)


def _run(
    pieces: Sequence[str | lp.Query],
    frames: Mapping[RelationRef, DataFrame],
    context: Context,
    views: Mapping[str, DataFrame],
    parameters: Sequence[str] = (),
) -> DataFrame:
    with temporary_views(frames) as names, temporary_views(views) as own_names:
        parts = [
            _fill(p, own_names)
            if isinstance(p, str)
            else rewrite_text(p.sql, names, context, parameters)
            for p in pieces
        ]
        texts = [p for p in parts if isinstance(p, str)]
        if len(texts) == len(parts):
            return context.session.sql("".join(texts))
        statement = concatenate(parts)
        with _translated(statement, names, context):
            return context.session.sql(statement.text)


def _fill(text: str, names: Mapping[str, str]) -> str:
    for name, view in names.items():
        text = text.replace("{" + name + "}", view)
    return text


def relation_rows(
    relations: Sequence[lp.Node], context: Context, rows: Mapping[int, DataFrame] | None = None
) -> list[RelationRows]:
    """The rows of each relation of a text."""
    rows = rows or {}
    return [
        RelationRows(rows[i]) if i in rows else _lower_relation(node, context)
        for i, node in enumerate(relations)
    ]


@contextmanager
def temporary_views(frames: Mapping[Key, DataFrame]) -> Iterator[dict[Key, str]]:
    """The names of temporary views, as long as they exist."""
    with ExitStack() as stack:
        yield {key: stack.enter_context(temporary_view(f)) for key, f in frames.items()}


def rewrite_text(
    sql: SqlText, names: dict[RelationRef, str], context: Context, parameters: Sequence[str] = ()
) -> RewrittenText:
    """A text of the user with its relations and its clock calls replaced."""
    return rewrite(sql, relation=lambda ref: names[ref], at=context.clock_at, parameters=parameters)


@contextmanager
def spark_text(
    sql: SqlText, names: dict[RelationRef, str], context: Context, parameters: Sequence[str] = ()
) -> Iterator[str]:
    """A text of the user in Spark's form; inside, Spark's errors refer to the user's text."""
    statement = rewrite_text(sql, names, context, parameters)
    with _translated(statement, names, context):
        yield statement.text


def _translated(
    statement: RewrittenText, names: Mapping[RelationRef, str], context: Context
) -> AbstractContextManager[None]:
    texts = {name: ref.span.text for ref, name in names.items()}
    return context.sources.translate_errors(
        statement, statement.span, lambda name: texts.get(name, name)
    )
