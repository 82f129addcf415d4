"""What the front doors ask of a connection; :mod:`ctsql.api` provides it, tests give a fake.

Why protocols: the command line and the prompt must not import Spark to be drawn, and their tests
must not start it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ctsql.catalog.spans import Source, Span
from ctsql.result import Result


class ObjectInfo(Protocol):
    """An object as completion needs it."""

    @property
    def schema(self) -> str:
        """The schema's name."""

    @property
    def name(self) -> str:
        """The object's own name."""

    @property
    def kind(self) -> str:
        """``table``, ``view``, ``materialized view`` or ``continual task``."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names, in order."""


class Event(Protocol):
    """What ``ctsql run`` tells: a commit, a failure."""

    def line(self) -> str:
        """As one line for people."""

    def to_json(self) -> str:
        """As one JSON object on one line."""


class Connection(Protocol):
    """The part of a connection that the front doors use."""

    @property
    def warehouse(self) -> str:
        """Where the warehouse is."""

    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""

    @property
    def started(self) -> bool:
        """Whether Spark is up and the warehouse is open."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    def start(self) -> None:
        """Start Spark and open the warehouse now; returns when that is done."""

    def statements(self, source: Source) -> Iterator[Span]:
        """The statements of a text; raises when it cannot be split."""

    def run_statement(self, span: Span, parameters: Sequence[object] | None = None) -> Result:
        """Run one statement."""

    def cancel(self) -> None:
        """Cancel the statement another thread is running."""

    def status(self) -> Result:
        """How far every task and view is."""

    def run(
        self,
        *,
        once: bool = False,
        stop: threading.Event | None = None,
        interval: float | None = None,
        on_event: Callable[[Event], None] | None = None,
        workers: int | None = None,
    ) -> None:
        """Keep every output up to date until ``stop`` is set, or (``once``) until it is now."""

    def objects(self) -> Sequence[ObjectInfo]:
        """All objects; only called once Spark is up."""

    def close(self) -> None:
        """Let go of the connection."""


class Connect(Protocol):
    """``ctsql.connect`` as the command line calls it."""

    def __call__(
        self, warehouse: str | None = None, *, master: str | None = None, read_only: bool = False
    ) -> Connection:
        """A connection, at once; Spark starts on first need."""
