"""The caller of ``advance``: it may stop between two commits, and is called back after each."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ctsql.catalog.errors import error
from ctsql.runtime.log.write_handle import Appended, Committed, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceContext:
    """The callbacks and the stop signal of a caller of ``advance``."""

    # set to stop after the current commit; None to run to the end
    stop: threading.Event | None = None
    # called after each commit that moves an upper, with the object's id.
    on_commit: Callable[[str, Entry], None] | None = None
    # the ids of the objects that the caller follows: every T of them is written.
    watched_ids: frozenset[str] = frozenset()

    def check_stop(self) -> None:
        """Raise STATEMENT_CANCELLED if the caller wants to stop; called between two commits."""
        if self.stop is not None and self.stop.is_set():
            raise error("STATEMENT_CANCELLED")

    def committed(self, object_id: str, outcome: Appended, upper: int) -> None:
        """Call back if a write of an object was committed and moved its upper."""
        if isinstance(outcome, Committed) and self.on_commit is not None:
            self.on_commit(object_id, Entry(upper, outcome.version))


UNATTENDED = AdvanceContext()  # the caller never stops and needs no call
