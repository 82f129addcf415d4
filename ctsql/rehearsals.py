"""``ctsql rehearse FOLDER``: what a folder's definitions would have done over the newest changes.

Exit codes: 0 the same rows, 2 rows would differ, 1 an error would come, 4 refused.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ctsql.catalog.errors import misuse
from ctsql.catalog.times import to_iso
from ctsql.comparing import Difference, compare
from ctsql.differences import difference_lines
from ctsql.folder import sql_files
from ctsql.pipelines import CHANGES, refusal_lines
from ctsql.planner.folder import Defining, Folder, define, not_a_definition, read_folder
from ctsql.planner.syntax import ast as st
from ctsql.result import Result
from ctsql.values import bytes_text, json_of

if TYPE_CHECKING:
    from ctsql.open_warehouse import OpenWarehouse
    from ctsql.runtime.engine import Engine
    from ctsql.runtime.pipelines.rehearsal import Costs, OutputRehearsal, Problem, Rehearsal

CHANGES_GONE_THROUGH = 100
"""So many, if not said."""
COLUMNS = (
    ("object", "string"),
    ("kind", "string"),
    ("status", "string"),
    ("rows", "bigint"),
    ("gone", "bigint"),
    ("come", "bigint"),
    ("seconds", "double"),
    ("present_seconds", "double"),
    ("error", "string"),
    ("error_t", "bigint"),
    ("note", "string"),
)
"""Of REHEARSE. gone: rows that are stored and would not be; come: the other way round."""
_SAID = ("stored, and would not be", "would be, and is not stored")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one output.

    Attributes:
        count: the rows that it would have; None after an error.
        difference: from what is stored; None where there is none, or nothing to compare with.
    """

    output: "OutputRehearsal"
    count: int | None = None
    difference: Difference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a rehearsal."""

    rehearsal: "Rehearsal"
    outcomes: tuple[Outcome, ...]

    @property
    def has_problems(self) -> bool:
        """Whether an error would come."""
        return any(o.output.problems for o in self.outcomes)

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if self.has_problems:
            return 1
        return CHANGES if any(o.difference is not None for o in self.outcomes) else 0


def rehearse(
    warehouse: "OpenWarehouse", folder: Folder, *, count: int = CHANGES_GONE_THROUGH
) -> Report:
    """Rehearse a folder over the newest changes of what its changed definitions read.

    Nothing is written into the warehouse.

    Args:
        count: over so many changes, at least 1.

    Raises:
        INVALID_USAGE: the count is below 1. Else as
        :func:`ctsql.runtime.pipelines.rehearsal.rehearse` does.
    """
    if count < 1:
        raise misuse(f"{count} changes cannot be gone through")
    with warehouse._running("rehearse") as engine:
        return _report(engine, folder, count)


def rehearse_statement(engine: "Engine", statement: st.Rehearse, schema: str) -> Result:
    """REHEARSE: a row for each output, with :data:`COLUMNS`.

    Args:
        schema: of unqualified names in a definition.
    """
    if isinstance(statement.definition, Defining):
        folder = Folder(definitions=(define(statement.definition, schema),))
    elif statement.definition is not None:
        raise not_a_definition(statement.definition)
    else:
        assert statement.folder is not None  # the parser has read one of them
        folder = read_folder(sql_files(Path(statement.folder)))
    report = _report(engine, folder, statement.count or CHANGES_GONE_THROUGH)
    rows = [_row(outcome, report.rehearsal.notes) for outcome in report.outcomes]
    return Result.of_table(COLUMNS, rows, "REHEARSE")


def _report(engine: "Engine", folder: Folder, count: int) -> Report:
    from ctsql.runtime.pipelines.rehearsal import rehearse

    with rehearse(engine, folder, count=count) as rehearsal:
        return Report(rehearsal=rehearsal, outcomes=tuple(_outcome(o) for o in rehearsal.outputs))


def _row(outcome: Outcome, notes: Sequence[str]) -> tuple[object, ...]:
    output, difference = outcome.output, outcome.difference
    first = output.problems[0] if output.problems else None
    is_same = output.stored_rows is not None and difference is None
    none = 0 if is_same else None
    error_text = None if first is None else f"{first.refusal.condition}: {first.refusal.message}"
    return (
        output.name,
        output.keyword.lower(),
        output.status.value,
        outcome.count,
        none if difference is None else difference.missing_count,
        none if difference is None else difference.surplus_count,
        None if output.costs is None else output.costs.seconds,
        None if output.before is None else output.before.seconds,
        error_text,
        None if first is None else first.time,
        "; ".join(filter(None, (output.note, *notes))) or None,
    )


def _outcome(output: "OutputRehearsal") -> Outcome:
    if output.rows is None:
        return Outcome(output=output)
    difference = None if output.stored_rows is None else compare(output.rows, output.stored_rows)
    return Outcome(output=output, count=output.rows.count(), difference=difference)


def write_report(report: Report, out: TextIO, *, as_json: bool) -> None:
    """Show what came of a rehearsal."""
    if as_json:
        out.write(json.dumps(_report_json(report)) + "\n")
        return
    for line in lines_of(report):
        out.write(line.rstrip() + "\n")


def lines_of(report: Report) -> Iterator[str]:
    """A report as text: a line that says over what, and a block for each output."""
    rehearsal = report.rehearsal
    if not rehearsal.outputs:
        yield "nothing to rehearse: the folder says what is there"
        return
    if rehearsal.times:
        count = len(rehearsal.times)
        changes = f"{count} change{'' if count == 1 else 's'} of {', '.join(rehearsal.inputs)}"
        yield f"{changes}, from {to_iso(rehearsal.times[0])} to {to_iso(rehearsal.times[-1])}"
    yield from rehearsal.notes
    for outcome in report.outcomes:
        yield from _block(outcome)


def _block(outcome: Outcome) -> Iterator[str]:
    output = outcome.output
    what = output.status.value
    mark = "+" if what == "new" else "~"
    if output.parts:
        what += f" ({', '.join(output.parts)})"
    elif what == "unchanged":
        what = "as it is, over what is changed"
    yield f"{mark} {output.keyword.lower()} {output.name}: {what}"
    for problem in output.problems:
        yield from _problem_lines(problem)
    if output.note:
        yield f"    {output.note}"
    if output.present is not None:
        yield "    by the present definitions it cannot be compared:"
        yield from _problem_lines(output.present)
    if outcome.count is not None:
        yield f"    {_rows(outcome.count)}{_compared(outcome)}"
    if outcome.difference is not None:
        yield from (f"    {line}" for line in difference_lines(outcome.difference, labels=_SAID))
    if output.costs is not None:
        yield f"    in memory: {_cost(output.costs)}"
    if output.before is not None:
        yield f"    at present: {_cost(output.before)}"


def _compared(outcome: Outcome) -> str:
    if outcome.difference is not None:
        return ", not the same as now"
    return "" if outcome.output.stored_rows is None else ", the same as now"


def _problem_lines(problem: "Problem") -> Iterator[str]:
    yield f"    at {to_iso(problem.time)}:"
    yield from (f"    {line}" for line in refusal_lines(problem.refusal))


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _cost(costs: "Costs") -> str:
    writes = f"{costs.commits} write{'' if costs.commits == 1 else 's'}"
    size = bytes_text(costs.bytes_read)
    return f"{writes}, {costs.seconds:.1f} s, {_rows(costs.rows_written)} written, {size} read"


def _report_json(report: Report) -> dict[str, Any]:
    rehearsal = report.rehearsal
    return {
        "after": rehearsal.after,
        "times": list(rehearsal.times),
        "inputs": list(rehearsal.inputs),
        "notes": list(rehearsal.notes),
        "outputs": [_outcome_json(o) for o in report.outcomes],
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    output = outcome.output
    return {
        "name": output.name,
        "kind": output.keyword.lower(),
        "status": output.status.value,
        "parts": list(output.parts),
        "rows": outcome.count,
        "is_compared": output.stored_rows is not None,
        "difference": None if outcome.difference is None else _difference_json(outcome.difference),
        "problems": [asdict(p) for p in output.problems],
        "present_problem": None if output.present is None else asdict(output.present),
        "costs": None if output.costs is None else asdict(output.costs),
        "present_costs": None if output.before is None else asdict(output.before),
        "note": output.note,
    }


def _difference_json(difference: Difference) -> dict[str, Any]:
    """The counts, and the first rows."""

    def rows(some: Any) -> list[dict[str, Any]]:
        return [
            {
                name: json.loads(json_of(value, kind))
                for name, value, kind in zip(difference.columns, row, difference.types, strict=True)
            }
            for row in some
        ]

    return {
        "gone": difference.missing_count,
        "come": difference.surplus_count,
        "first_gone": rows(difference.missing),
        "first_come": rows(difference.surplus),
    }
