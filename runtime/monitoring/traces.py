"""Traces: of each T the way from the commit of its source to the last output. Pure.

    T                      from T, the instant of the source's commit, to the last output's commit
      task or view         from where its refresh or run began to its commit; or where it failed

The trace is that of who wrote the source, where its commit says so; else its id is derived from
T and the table, so that several processes which bring outputs up give spans of one trace.

Source: W3C Trace Context, "traceparent Header".
"""

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ctsql.runtime.monitoring.refreshes import Refresh

KEY = "traceparent"
"""Key in the user metadata of a source's commit, if that is a JSON object."""
KNOWN_MAX = 10_000
"""Ts of which it is remembered that their span was given."""
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Origin:
    """A source's commit that a T is bound to.

    Attributes:
        parent: the trace and the span of who wrote it; None if the commit does not say.
    """

    table: str
    version: int
    parent: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What one output did at a T; instants are milliseconds."""

    name: str
    begun_ms: int
    ended_ms: int
    attributes: Mapping[str, str | int | float | bool]
    failure: str | None = None


@dataclass(slots=True)
class Trace:
    """A T with what is known of it.

    Attributes:
        is_first: whether no span was given for this T before; later ones are of outputs that
            had failed, say.
    """

    t: int
    origins: tuple[Origin, ...] = ()
    steps: list[Step] = field(default_factory=list)
    is_first: bool = True

    @property
    def ids(self) -> tuple[int, int, int | None]:
        """The ids of the trace, of the span of T, and of its parent if there is one.

        >>> Trace(5).ids == Trace(5).ids != Trace(6).ids
        True
        >>> Trace(5, (Origin("t", 3, (7, 8)),)).ids[::2]
        (7, 8)
        """
        parent = next((o.parent for o in self.origins if o.parent is not None), None)
        commits = [[o.table, o.version] for o in self.origins]
        digest = hashlib.sha256(json.dumps([self.t, commits]).encode()).digest()
        trace = int.from_bytes(digest[:16], "big") if parent is None else parent[0]
        return trace, int.from_bytes(digest[16:24], "big"), None if parent is None else parent[1]

    @property
    def ended_ms(self) -> int:
        """The instant of the last step."""
        return max(self.t, *(s.ended_ms for s in self.steps))


def parse_parent(user_metadata: str | None) -> tuple[int, int] | None:
    """The trace and span of who wrote a commit: the whole metadata, or its key ``traceparent``.

    >>> parse_parent('{"traceparent": "00-%032x-%016x-01"}' % (7, 8))
    (7, 8)
    >>> parse_parent("nightly load"), parse_parent(None), parse_parent("[1]")
    (None, None, None)
    """
    text = (user_metadata or "").strip()
    try:
        metadata = json.loads(text) if text.startswith("{") else {}
    except json.JSONDecodeError:
        metadata = {}
    match = _PARENT.fullmatch(str(metadata.get(KEY, text)).strip())
    ids = None if match is None else (int(match[1], 16), int(match[2], 16))
    return None if ids is None or 0 in ids else ids


class Traces:
    """Collects what happens at each T, and gives it on once T is reached; for one thread at a time.

    Args:
        emit: takes a trace at once, without waiting for anybody.
    """

    def __init__(self, emit: Callable[[Trace], None]) -> None:
        self._emit = emit
        self._open: dict[int, Trace] = {}
        self._emitted_ts: OrderedDict[int, None] = OrderedDict()
        self._newest_t = -1

    def add_refresh(self, refresh: Refresh, seconds: float, origins: tuple[Origin, ...]) -> None:
        """Add a commit of an output; ``seconds`` since the one before, or since it began."""
        if refresh.t is None:
            return
        ended_at = round(refresh.at.timestamp() * 1000)
        attributes = {
            "ctsql.kind": refresh.kind,
            "ctsql.version": refresh.version,
            "ctsql.strategy": refresh.strategy,
            "ctsql.reason": refresh.reason,
            "ctsql.rows_inserted": refresh.rows_inserted,
            "ctsql.rows_deleted": refresh.rows_deleted,
            "ctsql.rows_read": refresh.rows_read,
            "ctsql.jobs": refresh.jobs,
            "ctsql.process": refresh.process,
            **{f"ctsql.seconds.{name}": duration for name, duration in refresh.phases.items()},
        }
        known_attributes = {k: v for k, v in attributes.items() if v is not None}
        self._add(
            refresh.t,
            Step(refresh.output, ended_at - round(seconds * 1000), ended_at, known_attributes),
            origins,
        )

    def add_failure(self, name: str, t: int, at_ms: int, reason: str) -> None:
        """Add an output that could not be computed at a T."""
        self._add(t, Step(name, at_ms, at_ms, {}, reason), ())

    def _add(self, t: int, step: Step, origins: tuple[Origin, ...]) -> None:
        trace = self._open.setdefault(t, Trace(t, is_first=t not in self._emitted_ts))
        trace.origins = trace.origins or origins
        trace.steps.append(step)
        if not trace.is_first:  # T is reached, and may be the last for long
            self._emit(self._open.pop(t))

    def end(self) -> None:
        """Give on what came since of Ts that were reached before."""
        self.reached(self._newest_t)

    def reached(self, t: int) -> None:
        """Give on what happened at all Ts through one."""
        self._newest_t = max(self._newest_t, t)
        for time in sorted(x for x in self._open if x <= t):
            self._emit(self._open.pop(time))
            self._emitted_ts[time] = None
            if len(self._emitted_ts) > KNOWN_MAX:
                self._emitted_ts.popitem(last=False)
