"""Lowering of a task's body: a fold over its statements.

Kept between statements: which stored rows are still there, which were matched by a DELETE, and
which rows were proposed. A statement sees stored rows that are still there and proposed rows.
A DELETE takes away from both; a row that two DELETEs match is deleted once, because the first
takes it out of what the second sees.

Limit: everything is one lazy plan; a body of n DELETEs reads the output's files n times at most.
"""

import re
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctsql.catalog.schemas import Column
from ctsql.planner.lowering.context import EMPTY, Context
from ctsql.planner.lowering.queries import (
    lower_query,
    quoted,
    registered,
    relation_frames,
    run_text,
    temporary_view,
)
from ctsql.planner.nodes import Delete, Insert, Node, Query, SelfReference, Transaction


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a body proposes, before it is consolidated.

    Attributes:
        inserts: rows to insert; None when no INSERT ran.
        victims: stored rows to delete, with the columns that locate them; None for none.
    """

    inserts: DataFrame | None
    victims: DataFrame | None


def lower_transaction(node: Transaction, context: Context) -> Proposal:
    """What the statements propose at ``context.at``."""
    stored = _stored(node, context)
    inserts: DataFrame | None = None
    victims: DataFrame | None = None
    for i, statement in enumerate(node.statements):
        if isinstance(statement, Insert):
            rows = _insert(statement, context, stored, inserts)
            inserts = rows if inserts is None else inserts.unionAll(rows)
            continue
        own = _Own(statement.where, statement.of, stored, inserts)
        if stored is not None:
            matched = _matching(statement, stored, own, context, keep=False)
            victims = matched if victims is None else victims.unionAll(matched)
        if statement.where is None:
            stored = inserts = None
            continue
        if stored is not None and any(_looks(s) for s in node.statements[i + 1 :]):
            stored = _matching(statement, stored, own, context, keep=True)
        if inserts is not None:
            inserts = _matching(statement, inserts, own, context, keep=True)
    return Proposal(inserts, victims)


def _looks(statement: Insert | Delete) -> list[SelfReference]:
    """Where a statement looks at what the output holds."""
    query = statement.query if isinstance(statement, Insert) else statement.where
    of = (statement.of,) if isinstance(statement, Delete) else ()
    return [n for n in (*of, *(query.relations if query else ())) if isinstance(n, SelfReference)]


def _stored(node: Transaction, context: Context) -> DataFrame | None:
    """What the output holds, if any statement looks at it."""
    own = next((r for s in node.statements for r in _looks(s)), None)
    return None if own is None else context.sources.stored(own.object_id)


@dataclass(frozen=True, slots=True)
class _Own:
    """What a statement's subqueries see of the output: both parts, as the statement starts."""

    query: Query | None
    reference: Node
    stored: DataFrame | None
    inserts: DataFrame | None

    def given(self, context: Context) -> dict[int, DataFrame]:
        """Rows for the places in the query's relations where the output is read."""
        found: dict[int, DataFrame] = {}
        for i, relation in enumerate(self.query.relations if self.query else ()):
            if isinstance(relation, SelfReference):
                columns = quoted(relation.columns)
                parts = [f.select(*columns) for f in (self.stored, self.inserts) if f is not None]
                if parts:
                    found[i] = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
                else:
                    found[i] = context.sources.contents(relation.object_id, EMPTY).select(*columns)
        return found


def _insert(
    statement: Insert, context: Context, stored: DataFrame | None, inserts: DataFrame | None
) -> DataFrame:
    """The rows of an INSERT, under the output's columns and of their types."""
    own = _Own(statement.query, statement.query, stored, inserts)
    rows = lower_query(statement.query, context, own.given(context))
    place = {name: i for i, name in enumerate(statement.into)}
    positional = rows.toDF(*(f"__ct_c{i}" for i in range(len(statement.into))))
    chosen = []
    for column in statement.target:
        source = F.lit(None)
        if column.name in place:
            source = F.col(f"__ct_c{place[column.name]}")
        chosen.append(as_stored(source, column).alias(column.name))
    return positional.select(*chosen)


def as_stored(value: SparkColumn, column: Column) -> SparkColumn:
    """A value as a column of an output stores it; one that does not fit is an error on the row."""
    sized = re.fullmatch(r"(var)?char\((\d+)\)", column.type, re.IGNORECASE)
    if sized is None:
        return value.cast(column.type)
    text, length = value.cast("string"), int(sized.group(2))
    message = F.lit(f'a value is longer than {column.type} of column "{column.name}"')
    checked = F.when(F.length(text) > length, F.raise_error(message).cast("string")).otherwise(text)
    return checked if sized.group(1) else F.rpad(checked, length, " ")


def _matching(
    statement: Delete, rows: DataFrame, own: _Own, context: Context, *, keep: bool
) -> DataFrame:
    """The rows that a DELETE matches, or (keep) those that it leaves.

    A row is matched where the predicate is true; where it is false or NULL it stays.
    """
    where = statement.where
    if where is None:
        return rows
    frames = relation_frames(where.relations, context, own.given(context))
    with registered(where.sql, frames) as names, temporary_view(rows) as view:
        return run_text(
            where.sql,
            names,
            context,
            before=f"SELECT * FROM {view} AS {statement.alias} WHERE (",
            after=") IS NOT TRUE" if keep else ")",
        )
