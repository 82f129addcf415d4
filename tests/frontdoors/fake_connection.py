"""A connection without Spark: a few statements with known results; also a program to run.

``python tests/frontdoors/fake_connection.py [arguments]`` is the command line over this connection.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from ctsql.catalog.errors import error
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Span
from ctsql.connection.completion import Relation, Vocabulary
from ctsql.results.result import Result, Row
from ctsql.runtime.service.events import Event, EventKind

LIVE = ["t", "diff", "name"], ["bigint", "bigint", "string"]
OBJECTS = [
    Relation(schema=schema, name=name, kind=kind, columns=tuple(Column(c, "int") for c in columns))
    for schema, name, kind, columns in (
        ("default", "orders", "table", ("id", "customer", "total")),
        ("default", "odd name", "view", ("a b",)),
        ("sales", "daily", "materialized view", ("day", "total")),
    )
]


class FakeBatch:
    """What came at one T."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def rows(self) -> Iterator[Row]:
        return iter(self._rows)

    def to_arrow(self) -> Any:
        return Result.of_rows(*LIVE, self._rows).to_arrow()


class FakeLive:
    """Two batches, then nothing more until it is stopped."""

    def __init__(self, *, ends: bool) -> None:
        self._stop = threading.Event()
        if ends:
            self._stop.set()

    def batches(self) -> Iterator[FakeBatch]:
        yield FakeBatch([(7, 1, "a"), (7, 2, None)])
        yield FakeBatch([(9, -1, "a|b")])
        self._stop.wait(30)

    def stop(self) -> None:
        self._stop.set()


class FakeConnection:
    """Knows SELECT 1, VALUES, LETTERS, BAD, SLOW, BIG, DEFECT and SUBSCRIBE (it ends with UP).

    Everything else gives a status.
    """

    copied: ClassVar[list[bytes]] = []
    """What the files of COPY ... FROM held."""

    def __init__(
        self,
        warehouse: str | None = None,
        *,
        master: str | None = None,
        read_only: bool = False,
        create: bool = True,
    ) -> None:
        self.warehouse = warehouse or "warehouse"
        self.master = master
        self.read_only = read_only
        self.create = create
        self.is_new = False
        self.in_transaction = False
        self._master: str | None = None
        self.started = False
        self.closed = False
        self.ran: list[str] = []
        self.followed: list[bool] = []
        self.start_seconds = float(os.environ.get("FAKE_START", "0"))
        self.start_fails = "FAKE_NO_JAVA" in os.environ
        self._cancelled = threading.Event()
        self._starting = threading.Lock()
        self._engine = None
        self.java_options = ""

    @property
    def spark(self) -> Any:
        conf = {"spark.master": "local[*]", "spark.driver.extraJavaOptions": self.java_options}
        return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))

    def start(self) -> None:
        with self._starting:
            if self.started:
                return
            time.sleep(self.start_seconds)
            if self.start_fails:
                hint = "Type: apt install openjdk-17-jre-headless"
                raise error("JAVA_NOT_FOUND", detail="There is no java on PATH.", hint=hint)
            self.started = True

    def run_statement(
        self,
        span: Span,
        parameters: Sequence[object] | None = None,
    ) -> Result:
        self.start()
        self._cancelled.clear()
        self.ran.append(span.text)
        match span.text.split()[0].upper():
            case "COPY":
                file = Path(span.text.partition("'file:")[2].partition("'")[0])
                if file.exists():
                    self.copied.append(file.read_bytes())
                return Result.of_status("COPY 2")
            case "SELECT":
                return Result.of_rows(["one"], ["int"], [(1,)])
            case "VALUES":
                rows = [(1, "a", Decimal("1.50")), (22, None, None)]
                return Result.of_rows(["k", "name", "d"], ["int", "string", "decimal(3,2)"], rows)
            case "LETTERS":
                return Result.of_rows(["s"], ["string"], [("é ✓",)])
            case "BIG":
                return Result.of_rows(["n"], ["bigint"], [(n,) for n in range(200_000)])
            case "SUBSCRIBE":
                return Result.of_live(*LIVE, FakeLive(ends="UP" in span.text))
            case "SLOW":
                if self._cancelled.wait(30):
                    raise error("STATEMENT_CANCELLED", span=span)
                return Result.of_status("SLOW")
            case "DEFECT":
                raise ZeroDivisionError("of ours")
            case "BAD":
                at = span.part(0, 3)
                raise error("UNKNOWN_RELATION", span=at, kind="table", name="bad", hint="Mend it.")
            case "INSERT":
                return Result.of_status("INSERT 0 3", 3)
        return Result.of_status(" ".join(span.text.split()[:2]).upper())

    def cancel(self) -> None:
        self._cancelled.set()

    def known(self) -> Vocabulary:
        return Vocabulary(OBJECTS, ["default", "sales"], ["count", "concat", "!="], ["isolation"])

    def run(
        self,
        *,
        once: bool = False,
        stop: threading.Event | None = None,
        interval: float | None = None,
        on_event: Callable[[Event], None] | None = None,
        workers: int | None = None,
        pulse: object = None,
    ) -> None:
        self.followed.append(once)
        if on_event is not None:
            seconds = 0.0 if interval is None else interval
            on_event(Event(kind=EventKind.REACHED, at=0, time=1, seconds=seconds))
        if not once and stop is not None:
            stop.wait(30)
            if "FAKE_STUCK" in os.environ:
                time.sleep(30)

    def status(self) -> Result:
        failed = "FAKE_FAILED" in os.environ
        state = ("failed", "division\nby zero") if failed else ("up to date", None)
        row = ("continual task", "default", "t", *state, 7)
        columns = ["kind", "schema", "name", "state", "error_message", "upper"]
        return Result.of_rows(columns, ["string"] * 5 + ["int"], [row])

    def close(self) -> None:
        with self._starting:  # as the real one: closing waits for a start
            self.closed = True


if __name__ == "__main__":
    from ctsql.__main__ import open_standard_streams
    from ctsql.cli.main import main

    open_standard_streams()
    main(sys.argv[1:], obj=FakeConnection)
