"""Events of the service: each commit, failure or T without changes, as a line or as JSON."""

import json
from dataclasses import asdict, dataclass
from enum import Enum

from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log.failures import CAUSE
from ctsql.runtime.monitoring.refreshes import Refresh

_OF_REFRESH = (
    *("kind", "strategy", "reason", "rows_read", "bytes_read", "bytes_written", "jobs", "phases"),
    "process",
)


class EventKind(Enum):
    """What happened."""

    STARTED = "started"  # the service has started
    STOPPED = "stopped"  # the service was stopped
    WROTE = "wrote"  # an output was committed at a T
    REACHED = "reached"  # everything is complete through a T, and no rows were written
    FAILED = "failed"  # an object, or the service itself, failed
    RECOVERED = "recovered"  # a failed object continues
    COMPACTED = "compacted"  # the files of an output were compacted; no row changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event."""

    kind: EventKind
    at: int  # its instant by this machine's clock
    name: str | None = None  # the object's; None for the service itself
    time: int | None = None  # its T, if any
    version: int | None = None
    inserted: int | None = None  # inserted, deleted: numbers of rows; None without statistics
    deleted: int | None = None
    seconds: float | None = None
    condition: str | None = None
    message: str | None = None
    refresh: Refresh | None = None  # the row of system.refreshes, for a commit of a task or view
    quarantine_of: str | None = None  # the task or view whose quarantine was written

    @staticmethod
    def of_failure(problem: CtsqlError, *, at: int, name: str | None) -> "Event":
        """The event for an error."""
        time = problem.given.get("time")
        return Event(
            kind=EventKind.FAILED,
            at=at,
            name=name,
            time=time if isinstance(time, int) else None,
            condition=str(problem.given.get(CAUSE, problem.condition)),
            message=str(problem.given.get("reason", problem.message)),
        )

    def line(self) -> str:
        """The event as one line of text.

        >>> Event(
        ...     kind=EventKind.WROTE, at=0, name="t", time=7, inserted=3, deleted=None, seconds=0.4
        ... ).line()
        '1970-01-01T00:00:00.000Z t T=7 (1970-01-01T00:00:00.007Z) wrote +3 -? in 0.40 s'
        """
        about = [self.name] if self.name else []
        about += [f"T={self.time} ({times.to_iso(self.time)})"] if self.time is not None else []
        match self.kind:
            case EventKind.STARTED:
                text = f"following {self.message}"
            case EventKind.STOPPED:
                text = "stopped"
            case EventKind.WROTE:
                text = f"wrote +{_count(self.inserted)} -{_count(self.deleted)}"
            case EventKind.REACHED:
                text = "up to date"
            case EventKind.FAILED:
                text = f"failed: {' '.join((self.message or '').split())} [{self.condition}]"
            case EventKind.RECOVERED:
                text = "goes on"
            case EventKind.COMPACTED:
                text = f"compacted {self.message}"
        took = "" if self.seconds is None else f" in {self.seconds:.2f} s"
        return " ".join([times.to_iso(self.at), *about, text]) + took

    def to_json(self) -> str:
        """One JSON object on one line, with the work of the refresh, without fields that are None.

        >>> Event(kind=EventKind.REACHED, at=0, time=7).to_json()
        '{"at": "1970-01-01T00:00:00.000Z", "level": "info", "event": "reached", "t": 7}'
        """
        fields = {
            "at": times.to_iso(self.at),
            "level": "error" if self.kind is EventKind.FAILED else "info",
            "event": self.kind.value,
            "object": self.name,
            "t": self.time,
            "version": self.version,
            "inserted": self.inserted,
            "deleted": self.deleted,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "condition": self.condition,
            "message": self.message,
        }
        if self.refresh is not None:
            refresh = asdict(self.refresh)
            fields |= {name: refresh[name] for name in _OF_REFRESH}
        return json.dumps({k: v for k, v in fields.items() if v is not None}, ensure_ascii=False)


def _count(rows: int | None) -> str:
    return "?" if rows is None else str(rows)
