"""The action for proposed rows that break a constraint.

Spark marks every row with the constraints it breaks (:mod:`ctsql.planner.lowering.constraints`).
Here rows are divided by that mark, and each row is counted for each constraint it breaks:

    a FAIL is broken        the body fails at T, and the error shows rows
    a QUARANTINE is broken  into the quarantine, not into the output
    a DROP is broken        removed
    other rows, WARN        into the output

The counts of a T are in the metadata of the commit at T, their sums in its domain metadata.

[definite-outcome] the outcome depends on the proposed rows alone, so it is definite at T. Rows in a
    message are the first by their text.
[bounded-driver] the driver holds rows only where :mod:`ctsql.runtime.rows.collect` allows; else
    Spark counts them in one job over rows that it keeps for staging.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, functions as F

from ctsql.catalog.errors import CtsqlError, Declined, error
from ctsql.catalog.names import backtick_all
from ctsql.catalog.reserved_columns import BROKEN
from ctsql.catalog.schemas import quote_text
from ctsql.planner.lowering.constraints import AS_JSON, row_text
from ctsql.planner.nodes import Constraint
from ctsql.planner.syntax.ast import OnViolation
from ctsql.runtime.rows.row_set import AnyRows, LocalRows, SparkRows, persisted, row_set
from ctsql.runtime.rows.types import fits_arrow


def mask_of(constraints: Sequence[Constraint], *actions: OnViolation) -> int:
    """A mark with the bits of the constraints that have one of the actions."""
    return sum(1 << i for i, c in enumerate(constraints) if c.action in actions)


def fate(mark: int, constraints: Sequence[Constraint]) -> OnViolation | None:
    """The action for a row that breaks the constraints of a mark; None if it breaks none. Pure.

    If it breaks several, the first of FAIL, QUARANTINE, DROP, WARN applies.
    """
    for action in (
        OnViolation.FAIL,
        OnViolation.QUARANTINE,
        OnViolation.DROP,
        OnViolation.WARN,
    ):
        if mark & mask_of(constraints, action):
            return action
    return None


ROWS_NAMED_MAX = 3
_HINT = (
    "Correct the rows in the input and type ALTER CONTINUAL TASK ... RETRY, or give the constraint "
    "another action: ON VIOLATION DROP, WARN or QUARANTINE."
)


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Proposed rows after their constraints were checked."""

    output_rows: AnyRows  # rows for the output, without the mark
    # the number of rows that break each constraint
    violations: Mapping[str, int] = field(default_factory=dict)
    # rows for the quarantine, with the mark; None for none
    quarantined_rows: DataFrame | None = None


def count_marks(marks: Mapping[int, int], constraints: Sequence[Constraint]) -> dict[str, int]:
    """The number of rows that break each constraint, 0 included; ``marks``: rows by mark. Pure."""
    counts = {
        c.name: sum(rows for mark, rows in marks.items() if mark >> i & 1)
        for i, c in enumerate(constraints)
    }
    return {name: rows for name, rows in counts.items() if rows}


def check_rows(
    constraints: Sequence[Constraint],
    proposed_rows: AnyRows,
    columns: Sequence[str],
    *,
    small: bool,
    stack: ExitStack,
) -> CheckedRows:
    """Divide the rows proposed for an output, which have ``BROKEN`` if it has constraints.

    Args:
        columns: the output's. small: whether few rows are expected.
        stack: keeps Spark's rows until they are staged.

    Raises:
        CONSTRAINT_VIOLATED: a row breaks a constraint ON VIOLATION FAIL.
        DATA_ERROR: a condition cannot be evaluated.
    """
    if proposed_rows is None or not constraints:
        return CheckedRows(proposed_rows)
    rows = row_set(proposed_rows)
    if small or rows.is_of_few:
        local_rows = rows.collect()
        if not isinstance(local_rows, Declined):
            if fits_arrow(local_rows.schema):
                return _check_few(constraints, local_rows, columns)
            return _check_many(constraints, local_rows.plain_frame, columns)
    return _check_many(constraints, stack.enter_context(persisted(rows.frame)), columns)


def _check_few(
    constraints: Sequence[Constraint], rows: LocalRows, columns: Sequence[str]
) -> CheckedRows:
    marks: list[int] = rows.arrow.column(BROKEN).to_pylist()
    broken_counts = count_marks(Counter(marks), constraints)
    if not broken_counts:
        return CheckedRows(rows.select(columns))
    fates = [fate(mark, constraints) for mark in marks]

    def having(*actions: OnViolation | None) -> LocalRows:
        return rows.take([i for i, one in enumerate(fates) if one in actions])

    if OnViolation.FAIL in fates:
        failing = having(OnViolation.FAIL).plain_frame
        raise _violation(constraints, failing, columns, broken_counts)
    away = having(OnViolation.QUARANTINE)
    output_rows = having(None, OnViolation.WARN).select(columns)
    return CheckedRows(output_rows, broken_counts, None if away.is_empty else away.plain_frame)


def _check_many(
    constraints: Sequence[Constraint], rows: DataFrame, columns: Sequence[str]
) -> CheckedRows:
    fails, quarantines, drops = (
        mask_of(constraints, action)
        for action in (OnViolation.FAIL, OnViolation.QUARANTINE, OnViolation.DROP)
    )
    out = quarantines | drops
    bits = (f"sum(shiftright({BROKEN}, {i}) & 1L) AS n{i}" for i in range(len(constraints)))
    sums = rows.agg(*map(F.expr, bits)).first()
    assert sums is not None  # an aggregate without groups gives one row
    broken_counts = {c.name: n for c, n in zip(constraints, sums, strict=True) if n}
    quoted_columns = backtick_all(columns)
    if not broken_counts:
        return CheckedRows(rows.select(*quoted_columns))
    if any(c.name in broken_counts for c in constraints if c.action is OnViolation.FAIL):
        failing = rows.where(f"{BROKEN} & {fails}L != 0")
        raise _violation(constraints, failing, columns, broken_counts)
    output_rows = rows.where(f"{BROKEN} & {out}L = 0").select(*quoted_columns)
    away = None
    if any(c.name in broken_counts for c in constraints if c.action is OnViolation.QUARANTINE):
        away = rows.where(f"{BROKEN} & {quarantines}L != 0")
    return CheckedRows(SparkRows(output_rows), broken_counts, away)


def check_none_broken(rows: DataFrame) -> None:
    """Raise CONSTRAINT_VIOLATED if any row of several Ts breaks a constraint, whatever follows.

    The error is never shown: each T is then run by itself.
    """
    if not rows.where(f"{BROKEN} != 0").isEmpty():
        message = "a constraint is broken at one of several Ts"
        raise error("CONSTRAINT_VIOLATED", message=message, hint=_HINT)


def _violation(
    constraints: Sequence[Constraint],
    failing: DataFrame,
    columns: Sequence[str],
    broken_counts: Mapping[str, int],
) -> CtsqlError:
    """CONSTRAINT_VIOLATED at the first constraint that is broken, with some of the rows."""
    violations = [
        c for c in constraints if c.action is OnViolation.FAIL and c.name in broken_counts
    ]
    first = violations[0]
    bit = 1 << list(constraints).index(first)
    text = row_text(columns)
    rows = (
        failing.where(f"{BROKEN} & {bit}L != 0")
        .select(text.alias("row"))
        .orderBy("row")
        .limit(ROWS_NAMED_MAX)
        .collect()
    )
    row_list = ", ".join(row["row"] for row in rows)
    others = ", ".join(f'"{c.name}" by {broken_counts[c.name]}' for c in violations[1:])
    return error(
        "CONSTRAINT_VIOLATED",
        span=first.predicate.sql.span if first.predicate else None,
        message=f'constraint "{first.name}" is broken by {broken_counts[first.name]} row(s)',
        detail=f"{first.rule} does not hold for: {row_list}."
        + (f" Also broken: {others}." if others else ""),
        hint=_HINT,
    )


# ---- the quarantine


def quarantine_rows(
    constraints: Sequence[Constraint],
    rows: DataFrame,
    relation: str,
    columns: Sequence[str],
    at: int,
) -> DataFrame:
    """Rows that break constraints, as the quarantine of the output ``relation`` holds them."""

    def broken(texts: Iterable[str], between: str) -> str:
        each = ", ".join(
            f"IF({BROKEN} & {1 << i}L != 0L, {quote_text(text)}, NULL)"
            for i, text in enumerate(texts)
        )
        return f"concat_ws({quote_text(between)}, {each})"

    reasons = [f"{c.rule} does not hold" for c in constraints]
    reason = F.expr(broken(reasons, "; "))
    names = F.expr(broken([c.name for c in constraints], ", "))
    return as_quarantined(
        rows, columns, at=at, relation=relation, constraint_name=names, reason=reason
    )


def as_quarantined(
    rows: DataFrame,
    columns: Sequence[str],
    *,
    at: int | None,
    relation: str,
    constraint_name: Column,
    reason: Column,
    place: str | None = None,
) -> DataFrame:
    """Rows with the given columns as a quarantine holds them: in ``QUARANTINE_COLUMNS``."""
    return rows.select(
        F.lit(at).cast("bigint").alias("t"),
        F.lit(relation).alias("relation"),
        constraint_name.cast("string").alias("constraint_name"),
        reason.alias("reason"),
        F.lit(place).cast("string").alias("place"),
        F.to_json(F.struct(*backtick_all(columns)), AS_JSON).alias("row_json"),
    )
