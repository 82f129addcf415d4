"""The changes that a folder of SQL would make to a warehouse, as values to show and save. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import fold

FORMAT = 1


class PlannedStatus(Enum):
    """The action for an object."""

    NEW = "new"
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    GONE = "gone"
    KEPT = "not in the folder"
    REFUSED = "refused"


class Effect(Enum):
    """What a change does, in words for people."""

    NONE = ""
    CREATED_EMPTY = "an empty table is created"
    CREATED_FILLED = "a table is created and filled by its query"
    ATTACHED = "an existing table is attached"
    DEFINED = "it is defined; nothing is stored"
    BUILT = "computed once, then kept up to date"
    BEGINS_FILLED = "begins with the rows of a table, then runs for later changes"
    BEGINS_EMPTY = "begins empty, then runs for later changes"
    DIFFERENCE = "recomputed once; only rows that differ are written"
    REBUILT = "rebuilt: all rows are written, with the new columns"
    NEXT_T = "applies from the next T on; stored rows are kept"
    FOLLOWS = "stored readers show the new query from the next T on"
    NOTED = "only stored in the catalog"
    ALTERED = "altered before the definitions change"
    DROPPED = "dropped; UNDROP restores it"
    SCHEMA = "a schema is created"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRefusal:
    """Why an object cannot become what the folder says."""

    condition: str
    message: str
    detail: str = ""
    hint: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """The action for one object."""

    name: str
    keyword: str  # ``MATERIALIZED VIEW``
    status: PlannedStatus
    parts: tuple[str, ...] = ()  # the parts of a changed object that differ
    effect: Effect = Effect.NONE
    alterations: tuple[str, ...] = ()  # the ALTER TABLE statements of a changed table, in order
    notices: tuple[str, ...] = ()  # the effect of these on readers, as sentences
    # whether a view will follow the changes of its tables; None for other objects.
    incremental: bool | None = None
    reason: str = ""  # why not, with the reason's code and the place in the definition
    readers: tuple[str, ...] = ()  # the objects that read it directly
    refusal: PlanRefusal | None = None

    def refused(self, problem: CtsqlError) -> "PlannedChange":
        """The same, refused for an error."""
        return replace(
            self,
            status=PlannedStatus.REFUSED,
            refusal=PlanRefusal(
                condition=problem.condition,
                message=problem.message,
                detail=problem.detail or "",
                hint=problem.hint or "",
                place=problem.span.place() if problem.span else "",
            ),
            effect=Effect.NONE,
            notices=(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPlan:
    """What a folder would change."""

    # one for each object, those of the folder in order of what they read.
    changes: tuple[PlannedChange, ...]
    warehouse: str  # a digest of the stored definitions
    folder: str  # a digest of the folder's definitions

    @property
    def refused_changes(self) -> tuple[PlannedChange, ...]:
        """The refused changes; with one of them nothing is applied."""
        return tuple(c for c in self.changes if c.status is PlannedStatus.REFUSED)

    @property
    def pending(self) -> tuple[PlannedChange, ...]:
        """The changes to apply."""
        return tuple(
            c
            for c in self.changes
            if c.status in (PlannedStatus.NEW, PlannedStatus.CHANGED, PlannedStatus.GONE)
        )

    def counts(self) -> dict[str, int]:
        """The number of objects by action; only actions that occur."""
        numbers = {s: sum(c.status is s for c in self.changes) for s in PlannedStatus}
        return {s.value: n for s, n in numbers.items() if n}

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "format": FORMAT,
            "warehouse": self.warehouse,
            "folder": self.folder,
            "summary": self.counts(),
            "changes": [_change_json(c) for c in self.changes],
        }


def _change_json(change: PlannedChange) -> dict[str, Any]:
    raw = asdict(change) | {"status": change.status.value, "effect": change.effect.value}
    fields = ("name", "keyword", "status")
    return {k: v for k, v in raw.items() if k in fields or v not in ((), "", None)}


def read_plan(text: str, name: str) -> Mapping[str, Any]:
    """The values of a saved plan.

    Raises:
        PLAN_UNUSABLE: the text is not a saved plan.
    """
    try:
        raw: Mapping[str, Any] = json.loads(text)
        if raw["format"] != FORMAT:
            raise ValueError(f"its format is {raw['format']}, and this ctsql writes {FORMAT}")
        _actions(raw)  # which fails if a compared value is missing
        return {key: raw[key] for key in ("warehouse", "folder", "changes")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        is_explained = isinstance(problem, ValueError)  # not JSON, or another format
        detail = (
            f"{problem}." if is_explained else "It does not contain the output of ctsql plan -o."
        )
        message = f'"{name}" is not a saved plan'
        raise error("PLAN_UNUSABLE", message=message, detail=detail, cause=problem) from problem


def check_still(before: Mapping[str, Any], now: FolderPlan) -> None:
    """Raise PLAN_UNUSABLE if a saved plan differs from the plan of now."""
    one, other = _actions(before), _actions(now.to_json())
    names = sorted({key[1] for key in one.keys() | other.keys() if one.get(key) != other.get(key)})
    reasons = []
    if before["warehouse"] != now.warehouse:
        reasons.append("Definitions in the warehouse changed since.")
    if before["folder"] != now.folder:
        reasons.append("The folder changed since.")
    if names:
        reasons.append(f"It differs for: {', '.join(names)}.")
    if reasons:
        message = "the saved plan is not what would be done now"
        raise error("PLAN_UNUSABLE", message=message, detail=" ".join(reasons))


def _actions(plan: Mapping[str, Any]) -> dict[tuple[str, str], list[object]]:
    """The action for each object of a plan, by its keyword and its folded name."""
    return {
        (c["keyword"], fold(c["name"])): [
            c["status"],
            *(list(c.get(key, ())) for key in ("effect", "parts", "alterations")),
        ]
        for c in plan["changes"]
    }


def warehouse_digest(catalog: Catalog) -> str:
    """A short text that changes with any definition of a warehouse."""
    parts = sorted((i.id, i.name.key, repr(i.definition), i.comment, i.columns) for i in catalog)
    return digest([*parts, sorted(catalog.schemas)])


def digest(values: Sequence[object]) -> str:
    """A short text that changes with any of the values."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
