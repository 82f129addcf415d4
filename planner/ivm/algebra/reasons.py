"""Reasons why a query, or a part of one, has no change plan: a code and a sentence each.

Codes are stable and public: EXPLAIN and the errors of REFRESH POLICY = strict show them. With a
*refusal* the whole view is recomputed and compared; with a *note* a part of the plan is computed
from whole tables.
"""

from ctsql.catalog.declined import Declined
from ctsql.catalog.spans import Span

REFUSALS = {
    "AMBIGUOUS_COLUMN": "a column may be in more than one relation",
    "CLAUSE_UNSUPPORTED": "a clause that has no change rule",
    "CLOCK_ABOVE_TABLE": "the clock is compared with what is computed from several rows or tables, "
    "so which rows expire is known from all of them only",
    "CLOCK_READ": "the clock is read elsewhere than in a comparison with columns, in WHERE or "
    "HAVING, as it is or with a constant length of time added or taken away",
    "COLLATED_TEXTS": "texts that a collation takes for equal are not the same, so which of them "
    "is shown is arbitrary, and the former choice must be known again",
    "FLOAT_AGGREGATE_NESTED": "a floating-point sum depends on the order of addition, and what is "
    "computed from it, or a column it is grouped by that the view lacks, needs its former value",
    "FUNCTION_UNKNOWN": "there is no change rule for this function",
    "GENERATOR_PLACE": "a generator has a change rule behind LATERAL VIEW only",
    "GROUPED_BY_MAP": "Spark does not compare maps, so they cannot be keys of groups",
    "GROUPING_UNSUPPORTED": "the grouping cannot be split into sets of columns",
    "INEXACT_AGGREGATE_NESTED": "an aggregate depends on the order of its rows, and what is "
    "computed from it, or a column it is grouped by that the view lacks, needs its former value",
    "KEY_NOT_MATCHED": "an expression mixes aggregates with columns that are not grouped by",
    "LIMIT_WITHOUT_ORDER": "without ORDER BY the rows of LIMIT are arbitrary",
    "LIMIT_TIES": "ORDER BY leaves ties, and the rows that LIMIT kept must be known again",
    "NONDETERMINISTIC": "the result is not a function of the tables",
    "RECURSIVE_QUERY": "a recursive query has no change rule",
    "RELATION_UNKNOWN": "a relation with unknown columns",
    "ROW_ORDER_TIES": "rows that ORDER BY ties are ordered arbitrarily, and the former choice "
    "must be known again",
    "SAMPLE": "a sample is not a function of the table",
    "SUBQUERY_PLACE": "a subquery has no change rule at this place",
    "TEXT_NOT_READ": "the text cannot be parsed with certainty",
    "UNKNOWN_COLUMN": "no relation here has this column",
}
"""Sorted by code."""

NOTES = {
    "ALL_LEFT_ROWS": "a changed subquery can affect every row around it",
    "GLOBAL_AGGREGATE": "an aggregate without GROUP BY is computed from all rows",
    "LIMIT_FROM_ALL_ROWS": "the first rows are chosen from all rows",
    "WINDOW_WITHOUT_PARTITION": "window functions that share no partition column need all rows",
}
"""Sorted by code."""


def reason_text(declined: Declined) -> str:
    """A code of :data:`REFUSALS` or :data:`NOTES` with its sentence and its place in a text."""
    where = "" if declined.span is None else f", at {declined.span.place()}"
    return f"{declined.reason}: {(REFUSALS | NOTES)[declined.reason]}{where}"


class Refusal(Exception):
    """Carries the reason out of the parser."""

    def __init__(self, code: str, span: Span | None = None) -> None:
        if code not in REFUSALS:
            raise KeyError(code)
        super().__init__(code)
        self.declined = Declined(code, span=span)
