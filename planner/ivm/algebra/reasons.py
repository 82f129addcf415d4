"""Reasons why a query, or a part of one, has no change plan: a code and a sentence each.

Codes are stable and public: EXPLAIN and the errors of REFRESH POLICY = strict show them. With a
*refusal* the whole view is recomputed and compared; with a *note* a part of the plan is computed
from whole tables.
"""

from ctsql.catalog.errors import Declined
from ctsql.catalog.spans import Span

REFUSALS = {
    "AMBIGUOUS_COLUMN": "a column may be in more than one relation",
    "CLAUSE_UNSUPPORTED": "a clause that has no change rule",
    "CLOCK_ABOVE_TABLE": "the clock is compared with a value that is computed from several rows or "
    "tables, so expiring rows cannot be found in one table",
    "CLOCK_READ": "the clock must be compared with columns, in WHERE or HAVING, perhaps plus "
    "or minus a constant length of time",
    "COLLATED_TEXTS": "texts that are equal by a collation may differ, so the shown one is "
    "arbitrary, and the former choice is unknown",
    "FLOAT_AGGREGATE_NESTED": "a floating-point sum depends on the order of addition, and its "
    "former value is needed: the view computes with it, or lacks a column of its GROUP BY",
    "FUNCTION_UNKNOWN": "there is no change rule for this function",
    "GENERATOR_PLACE": "a generator has a change rule only in LATERAL VIEW",
    "GROUPED_BY_MAP": "Spark does not compare maps, so they cannot be keys of groups",
    "GROUPING_UNSUPPORTED": "the grouping cannot be split into sets of columns",
    "INEXACT_AGGREGATE_NESTED": "an aggregate depends on the order of its rows, and its former "
    "value is needed: the view computes with it, or lacks a column of its GROUP BY",
    "KEY_NOT_MATCHED": "an expression mixes aggregates with columns that are not in GROUP BY",
    "LIMIT_WITHOUT_ORDER": "without ORDER BY the rows of LIMIT are arbitrary",
    "LIMIT_TIES": "ORDER BY leaves ties, so the former rows of LIMIT are unknown",
    "NONDETERMINISTIC": "the result is not a function of the tables",
    "RECURSIVE_QUERY": "a recursive query has no change rule",
    "RELATION_UNKNOWN": "a relation with unknown columns",
    "ROW_ORDER_TIES": "tied rows of ORDER BY have an arbitrary order, so the former choice is "
    "unknown",
    "SAMPLE": "a sample is not a function of the table",
    "SUBQUERY_PLACE": "a subquery has no change rule at this place",
    "TEXT_NOT_READ": "the text cannot be parsed with certainty",
    "UNKNOWN_COLUMN": "no relation here has this column",
}
"""Sorted by code."""

NOTES = {
    "ALL_LEFT_ROWS": "a changed subquery can affect every outer row",
    "GLOBAL_AGGREGATE": "an aggregate without GROUP BY is computed from all rows",
    "LIMIT_FROM_ALL_ROWS": "the first rows are chosen from all rows",
    "WINDOW_WITHOUT_PARTITION": "window functions that share no partition column need all rows",
}
"""Sorted by code."""


class Refusal(Exception):
    """Carries the reason out of the parser."""

    def __init__(self, code: str, span: Span | None = None) -> None:
        if code not in REFUSALS:
            raise KeyError(code)
        super().__init__(code)
        self.declined = Declined(code, span=span)
