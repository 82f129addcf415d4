"""A warehouse as the status page sees it, made of values: no logs, no Spark."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.monitoring.failures import FailureRow
from ctsql.runtime.monitoring.objects import DependencyRow, LagRow, ObjectRow, StorageRow
from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.status_page.model import (
    Details,
    HistoryPage,
    LastChange,
    Overview,
    QuarantineRows,
    Reader,
    overview,
)

T = TypeVar("T")
NOW = datetime.now(UTC).replace(microsecond=0)
NOW_T = round(NOW.timestamp() * 1000)
TASK, VIEW, TABLE = "continual task", "materialized view", "table"
EVIL = '<script>alert("x")</script>'
TASK_TEXT = """CREATE CONTINUAL TASK {name} ON INPUT orders AS (
    DELETE FROM {name} WHERE id IN (SELECT id FROM orders);
    INSERT INTO {name} SELECT id, CAST(amount AS INT) AS amount FROM orders
)"""


def ask(question: Callable[[LogReader], T]) -> T:
    """Ask without a reader: what is made needs none."""
    return question(None)  # type: ignore[arg-type]


def id_of(name: str) -> str:
    return f"id{name.encode().hex()}"


def object_row(name: str, kind: str = TABLE) -> ObjectRow:
    text = TASK_TEXT.format(name=name) if kind == TASK else f"CREATE {kind.upper()} {name} (id INT)"
    return ObjectRow(
        object=name, schema="default", name=name, kind=kind, state=None, created_t=5,
        columns=("id", "amount"), comment=None, definition=text, location=f"file:/w/{name}",
        object_id=id_of(name),
    )  # fmt: skip


def lag_row(name: str, kind: str, state: str = "up to date", lag: float = 0.0) -> LagRow:
    failed = state == "failed"
    return LagRow(
        object=name, kind=kind, state=state, upper=NOW_T - round(lag * 1000),
        complete_through=NOW_T - round(lag * 1000), lag_seconds=lag,
        lag_versions=round(lag / 3) + 1 if lag else 0,
        error_condition="TASK_FAILED" if failed else None, error_t=NOW_T if failed else None,
        error_message="value 'x' is no INT" if failed else None,
    )  # fmt: skip


def failure_row(name: str, kind: str = TASK, minutes: float = 12) -> FailureRow:
    return FailureRow(
        object=name, kind=kind, t=NOW_T - round(minutes * 60_000),
        at=NOW - timedelta(minutes=minutes), state="open", condition="CAST_INVALID_INPUT",
        message="The value 'x17' of the type \"STRING\" cannot be cast to \"INT\"",
        detail="The row is (4711, 'x17').", line=3, column=35, ended_at=None,
        what_to_do=f"Give it a body that can compute that T: ALTER CONTINUAL TASK {name} AS (...); "
        "nothing is lost. If the rows are not at fault: "
        f"ALTER CONTINUAL TASK {name} RETRY. To leave them out: ALTER CONTINUAL TASK {name} SKIP",
    )  # fmt: skip


def refresh(name: str, n: int, strategy: str = "incremental", kind: str = VIEW) -> Refresh:
    """The n-th refresh before now."""
    at = NOW - timedelta(seconds=7 * n)
    return Refresh(
        object=name, output=name, kind=kind, t=NOW_T - 7_000 * n, at=at, version=1_000 - n,
        strategy=strategy, reason=None, detail=None, changed=("orders",),
        changed_rows=3, expected_seconds=2.5,
        rows_inserted=(n * 37) % 90, rows_deleted=(n * 11) % 20, files_written=1,
        bytes_written=4_000, rows_read=300 + n, bytes_read=70_000, jobs=2,
        seconds=0.2 + (n * 13 % 17) / 20 + (2.5 if strategy.startswith("recompute") else 0),
        phases={"compute": 0.1}, delay_seconds=0.5, times=1, process="host:1",
    )  # fmt: skip


def last_refreshes(name: str, count: int = 100) -> tuple[Refresh, ...]:
    def strategy(n: int) -> str:
        if n % 31 == 30:
            return "recompute and diff"
        return ("incremental", "incremental", "state table", "affected keys", "no change")[n % 5]

    return tuple(refresh(name, n, strategy(n)) for n in range(count))


class MadeWarehouse:
    """A warehouse; :attr:`rows`, :attr:`lags` and the others may be changed at any time."""

    def __init__(self) -> None:
        self.rows: list[ObjectRow] = []
        self.lags: dict[str, LagRow] = {}
        self.reads: list[DependencyRow] = []
        self.open_failures: dict[str, FailureRow] = {}
        self.version = 7
        self.refreshes: dict[str, tuple[Refresh, ...]] = {}
        self.problem: CtsqlError | None = None
        self.hangs = threading.Event()
        self.hangs.set()
        self.looks = 0

    def add(self, name: str, kind: str = TABLE, reads: str = "", role: str = "input") -> None:
        self.rows.append(object_row(name, kind))
        if kind in (TASK, VIEW):
            self.lags[name] = lag_row(name, kind)
        kinds = {r.object: r.kind for r in self.rows}
        for read in reads.split():
            self.reads.append(
                DependencyRow(
                    object=name,
                    kind=kind,
                    reads=read,
                    reads_kind=kinds[read],
                    role=role,
                    columns=("id",),
                    column_lineage={},
                )
            )

    def fail(self, name: str, minutes: float = 12) -> None:
        kind = self.lags[name].kind
        self.lags[name] = lag_row(name, kind, "failed", minutes * 60)
        self.open_failures[name] = failure_row(name, kind, minutes)

    def heal(self, name: str) -> None:
        self.lags[name] = lag_row(name, self.lags[name].kind)
        del self.open_failures[name]

    def overview(self, _: LogReader) -> Overview:
        self.looks += 1
        self.hangs.wait(60)
        if self.problem is not None:
            raise self.problem
        changes = {
            r.object_id: LastChange(version=self.version, at=NOW - timedelta(seconds=3 + n))
            for n, r in enumerate(self.rows)
            if r.kind != "view"
        }
        lags, opened = list(self.lags.values()), list(self.open_failures.values())
        return overview(self.rows, lags, self.reads, opened, changes, NOW_T)

    def details(self, reader: LogReader, object_id: str) -> Details | None:
        seen = self.overview(reader)
        shown = seen.of(object_id)
        if shown is None:
            return None
        (row,) = (r for r in self.rows if r.object_id == object_id)
        of_run = shown.name in self.lags
        opened = [f for f in self.open_failures.values() if f.object == shown.name]
        resolved = replace(
            failure_row(shown.name, minutes=300), state="resolved", ended_at=NOW, what_to_do=None
        )
        return Details(
            node=shown,
            row=row,
            definition=row.definition,
            plan="task\n  delete\n    inserts input orders\n  insert" if of_run else None,
            refreshes=self.refreshes.get(shown.name, last_refreshes(shown.name)) if of_run else (),
            failures=(*opened, resolved) if of_run else (),
            reads=tuple(
                Reader(d.reads, d.reads_kind, d.role, None, id_of(d.reads))
                for d in self.reads
                if d.object == shown.name
            ),
            readers=tuple(
                Reader(d.object, d.kind, d.role, NOW_T - 5, id_of(d.object))
                for d in self.reads
                if d.reads == shown.name
            ),
            storage=(stored(shown.name),),
            quarantine=QuarantineRows(f"{shown.name}_quarantine", 3) if of_run else None,
        )

    def history(self, _: LogReader) -> HistoryPage:
        names = list(self.lags)[:9]
        each = [r for n, name in enumerate(names) for r in last_refreshes(name)[n % 3 :: 4]]
        each.sort(key=lambda r: r.at, reverse=True)
        return HistoryPage(
            refreshes=tuple(each[:100]),
            failures=tuple(self.open_failures.values()),
        )


def stored(name: str) -> StorageRow:
    return StorageRow(
        object=name, kind=TABLE, part="rows", version=7, files=4, bytes=2_469_134,
        rows=10_000, deleted_rows=12, location=f"file:/w/{name}",
    )  # fmt: skip


def shop() -> MadeWarehouse:
    """A dozen objects as a shop has them, all up to date."""
    made = MadeWarehouse()
    for name in ("orders", "customers", "products", "clicks", "rates"):
        made.add(name)
    made.add("clean_orders", TASK, "orders")
    made.add("audit_log", TASK, "orders customers")
    made.add("order_lines", VIEW, "clean_orders products")
    made.add("revenue_by_day", VIEW, "order_lines")
    made.add("revenue_by_region_and_product_group", VIEW, "order_lines customers")
    made.add("sessions", VIEW, "clicks")
    made.add("top_products", VIEW, "order_lines sessions")
    made.add("recent", "view", "clean_orders")
    made.reads.append(
        DependencyRow(
            object="clean_orders",
            kind=TASK,
            reads="rates",
            reads_kind=TABLE,
            role="reference",
            columns=("id",),
            column_lineage={},
        )
    )
    return made


def large(count: int = 200) -> MadeWarehouse:
    """As many objects: sources, tasks over each, views over several levels."""
    made = MadeWarehouse()
    sources = [f"source_{n:02}" for n in range(count // 10)]
    tasks = [f"clean_{n:02}" for n in range(count // 5)]
    views: list[str] = []
    for name in sources:
        made.add(name)
    for n, name in enumerate(tasks):
        made.add(name, TASK, sources[n % len(sources)])
    for n in range(count - len(sources) - len(tasks)):
        below = views[n - 45] if n >= 45 else tasks[n % len(tasks)]
        beside = f" {views[n // 2]}" if n % 9 == 8 and n // 2 < len(views) else ""
        name = f"daily_{n:03}"
        made.add(name, VIEW, below + beside if beside.strip() != below else below)
        views.append(name)
    return made
