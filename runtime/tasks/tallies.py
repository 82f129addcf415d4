"""The stored numbers of rows that broke each constraint, and the columns of a quarantine.

No import of Spark here: SHOW CONSTRAINTS reads only logs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctsql.catalog.errors import not_readable
from ctsql.planner.nodes import Constraint

TALLIES = "ctsql.constraints"
"""The domain with an output's counts: the sum for each constraint."""
COUNTED = "constraints"
"""Key in the metadata of a commit: how many rows broke each constraint at its T."""
QUARANTINE_COLUMNS = (
    ("t", "bigint"),
    ("relation", "string"),
    ("constraint_name", "string"),
    ("reason", "string"),
    ("place", "string"),
    ("row_json", "string"),
)
"""Of every quarantine: T, the row's relation, the constraints, the reason, the place, the row."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The rows that broke a constraint so far.

    Attributes:
        rule: the constraint's text when they were counted; another text is counted from 0.
        last_t, last_rows: the newest T with such rows, and their number.
    """

    rule: str
    rows: int
    last_t: int
    last_rows: int


def tallies_of(domains: Mapping[str, str]) -> dict[str, Tally]:
    """The sums in a table's domain metadata, by constraint name.

    Raises STORED_DATA_INVALID.
    """
    text = domains.get(TALLIES)
    if text is None:
        return {}
    try:
        raw = json.loads(text)
        return {
            name: Tally(str(tally["rule"]), int(tally["rows"]), int(tally["t"]), int(tally["last"]))
            for name, tally in raw.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        what, hint = "the counts of an output's constraints", "Drop the object and create it again."
        raise not_readable(what, problem, hint) from problem


def add_tallies(
    tallies: Mapping[str, Tally],
    constraints: Sequence[Constraint],
    violations: Mapping[str, int],
    at: int,
) -> str:
    """The sums after a T, as text; dropped constraints are left out. Pure."""
    records = {}
    for constraint in constraints:
        before = tallies.get(constraint.name)
        if before is not None and before.rule != constraint.rule:
            before = None
        rows = violations.get(constraint.name, 0)
        if rows:
            total = rows + (0 if before is None else before.rows)
            before = Tally(constraint.rule, total, at, rows)
        if before is not None:
            fields = {"rule": before.rule, "rows": before.rows, "t": before.last_t}
            records[constraint.name] = {**fields, "last": before.last_rows}
    return json.dumps(records)
