"""Lowering of constraints: each proposed row gets a bit set of the constraints it breaks.

Bit i of the column ``BROKEN`` is the i-th constraint of the output's definition. Spark evaluates
every condition, in one projection over the rows proposed at the end of the body.
"""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F

from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import BROKEN, PROPOSED
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.output_state import OutputState, StatementView
from ctsql.planner.nodes import Constraint, Query
from ctsql.planner.syntax import splice

AS_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": f"yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]{3 * 'X'}",  # +01:00, or Z
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
"""How a row is written: with its NULLs, and its times to the microsecond."""
ROW_TEXT_MAX = 200


def row_text(columns: Sequence[str]) -> SparkColumn:
    """The beginning of a row as an error shows it."""
    return F.substring(F.to_json(F.struct(*backtick_all(columns)), AS_JSON), 1, ROW_TEXT_MAX)


def mark_broken(
    constraints: Sequence[Constraint], rows: DataFrame | None, context: Context
) -> DataFrame | None:
    """The rows proposed for an output with ``BROKEN``; unchanged if it has no constraints.

    Raises (when computed) DATA_ERROR, with its place: a condition cannot be evaluated for a row.
    """
    if rows is None or not constraints:
        return rows
    pieces: list[str | Query] = ["SELECT *, 0L"]
    for bit, constraint in enumerate(constraints):
        pieces += [" + IF(", *_condition(constraint), f", 0L, {1 << bit}L)"]
    pieces.append(f" AS {BROKEN} FROM {{rows}} AS {PROPOSED}")
    return StatementView(OutputState(None), context).run(pieces, {"rows": rows})


def fail_broken(rows: DataFrame, constraints: Sequence[Constraint]) -> DataFrame:
    """Rows whose evaluation fails where one of them breaks a constraint, naming the row."""
    if not constraints:
        return rows
    names = backtick_all(rows.columns)
    row = row_text(rows.columns)
    first = rows.schema.fields[0]
    value = F.col(names[0])
    for constraint in reversed(constraints):
        message = f'constraint "{constraint.name}" is broken: {constraint.rule} does not hold for '
        failure = F.raise_error(F.concat(F.lit(message), row)).cast(first.dataType)
        value = F.when(F.expr(kept_text(constraint)), value).otherwise(failure)
    return rows.select(value.alias(first.name, metadata=first.metadata), *names[1:])


def with_refused(rows: DataFrame, constraints: Sequence[Constraint]) -> DataFrame:
    """Rows with ``BROKEN``, which is NULL where a row breaks one of some constraints."""
    if not constraints:
        return rows
    condition = " AND ".join(kept_text(c) for c in constraints)
    return rows.withColumn(BROKEN, F.expr(f"IF({condition}, 0L, NULL)"))


def kept_text(constraint: Constraint) -> str:
    """The condition that a row keeps a constraint that does not read the clock; never NULL."""
    return "".join(
        piece if isinstance(piece, str) else splice(piece.sql.span, piece.sql.edits).text
        for piece in ("(", *_condition(constraint), ")")
    )


def _condition(constraint: Constraint) -> list[str | Query]:
    if constraint.predicate is not None:
        return ["(", constraint.predicate, ") IS NOT FALSE"]
    if constraint.key:
        return ["TRUE"]  # other rows decide it
    return [" AND ".join(f"{backtick(name)} IS NOT NULL" for name in constraint.not_null)]
