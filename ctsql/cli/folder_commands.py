"""``ctsql plan``, ``apply`` and ``dump``: a folder of SQL as the state of a warehouse.

Exit codes of plan: 0 nothing to do, 2 changes, 4 refused; of apply: 0 done or nothing to do, 4
refused. Both: 1 for any other error.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ctsql.catalog.errors import error, misuse, suppress_conditions
from ctsql.pipelines import plan
from ctsql.planner.folder import Folder
from ctsql.rendering.output_file import OutputFile, check_output

if TYPE_CHECKING:
    from ctsql.api import Connection

if TYPE_CHECKING:
    from ctsql.connection.open_warehouse import OpenWarehouse
    from ctsql.runtime.pipelines.plan import FolderPlan, PlannedChange, PlanRefusal

CHANGES, REFUSED = 2, 4
_MARKS = {"new": "+", "changed": "~", "gone": "-", "refused": "!"}


def plan_or_all_new(
    connect: "Callable[..., AbstractContextManager[OpenWarehouse]]",
    warehouse: "OpenWarehouse",
    folder: Folder,
    *,
    prune: bool,
) -> "FolderPlan":
    """The plan for the command line; without a warehouse, all definitions of the folder are new."""
    with suppress_conditions("WAREHOUSE_NOT_FOUND"):
        return plan(warehouse, folder, prune=prune)
    with (
        tempfile.TemporaryDirectory(prefix="ctsql-plan-") as empty,
        connect(f"{empty}/warehouse") as nothing,
    ):
        return plan(nothing, folder, prune=prune)


def exit_code(plan: "FolderPlan") -> int:
    """The exit code of a plan."""
    if plan.refused_changes:
        return REFUSED
    return CHANGES if plan.pending else 0


def save(plan: "FolderPlan", path: Path) -> None:
    """Write a plan into a file, for apply."""
    with OutputFile(path) as out:
        out.write(json.dumps(plan.to_json(), indent=2) + "\n")
        out.publish()


def load(path: Path) -> Mapping[str, Any]:
    """Read a saved plan; raises PLAN_UNUSABLE for another file, OSError if it is unreadable."""
    from ctsql.runtime.pipelines.plan import read_plan

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        message = f'"{path}" is not a saved plan'
        detail = "It is not UTF-8 text."
        raise error("PLAN_UNUSABLE", message=message, detail=detail) from problem
    return read_plan(text, str(path))


def write_plan(plan: "FolderPlan", out: TextIO, *, as_json: bool) -> None:
    """Show a plan."""
    if as_json:
        out.write(json.dumps(plan.to_json()) + "\n")
        return
    for line in lines_of(plan):
        out.write(line + "\n")


def lines_of(plan: "FolderPlan") -> Iterator[str]:
    """A plan as text: a block for each object that changes, and a line that counts all."""
    for change in plan.changes:
        mark = _MARKS.get(change.status.value)
        if mark is not None:
            yield from _block(mark, change)
    counts = ", ".join(f"{n} {what}" for what, n in plan.counts().items())
    yield counts or "nothing in the folder and nothing in the warehouse"


def _block(mark: str, change: "PlannedChange") -> Iterator[str]:
    what = change.status.value
    if change.parts:
        what += f" ({', '.join(change.parts)})"
    effect = f": {change.effect.value}" if change.effect.value else ""
    yield f"{mark} {change.keyword.lower()} {change.name}: {what}{effect}"
    yield from (f"    {text}" for text in (*change.alterations, *change.notices))
    if change.incremental is not None:
        how = "refreshed incrementally"
        yield f"    {how}" if change.incremental else f"    recomputed each time: {change.reason}"
    if change.refusal is not None:
        yield from (f"    {line}" for line in refusal_lines(change.refusal))
    if change.readers:
        yield f"    read by {', '.join(change.readers)}"


def refusal_lines(refusal: "PlanRefusal") -> Iterator[str]:
    """An error as lines."""
    yield f"{refusal.condition}: {refusal.message}" + (
        f" ({refusal.place})" if refusal.place else ""
    )
    yield from (text for text in (refusal.detail, refusal.hint and f"hint: {refusal.hint}") if text)


def write_dump(connection: "Connection", folder: Path) -> list[Path]:
    """Write the definitions of a warehouse into a folder, numbered in the order in which they run.

    Raises:
        INVALID_USAGE: there are .sql files in the folder. NOT_SUPPORTED: it is one of ctsql or
            Delta. OSError: it cannot be written.
    """
    from ctsql.runtime.statements.inspect.dump import dump

    check_output(folder, connection.warehouse)
    if any(folder.glob("*.sql")):
        detail = "Files of dropped objects would remain among the new ones."
        raise misuse(f"there are .sql files in {folder}", detail)
    with connection._running("dump") as engine:
        definitions = dump(engine)
    folder.mkdir(parents=True, exist_ok=True)
    width = len(str(len(definitions)))
    files = []
    for number, (name, text) in enumerate(definitions, start=1):
        plain = re.sub(r"[^\w.-]", "_", name)
        files.append(folder / f"{number:0{width}}_{plain}.sql")
        files[-1].write_text(text, encoding="utf-8")
    return files
