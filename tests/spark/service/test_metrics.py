"""Metrics of a running service: what they say, and that a collector that hangs delays nothing."""

import queue
import socket
import threading
import urllib.request
from pathlib import Path

import pytest

from ctsql.api import Connection
from ctsql.export.metrics_server import Metrics
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.monitoring import metrics as metrics_module
from ctsql.runtime.service.events import Event, EventKind

WAIT_SECONDS = 120


def _page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=WAIT_SECONDS) as answer:
        return str(answer.read().decode())


def test_collectors_that_hang_delay_no_tick(
    con: Connection, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one hangs in looking up lags and another reads nothing, changes are taken in."""
    con.execute(
        "CREATE TABLE feed (k INT);"
        "CREATE CONTINUAL TASK copy ON INPUT feed AS (INSERT INTO copy SELECT k FROM feed)"
    )
    monkeypatch.setattr(metrics_module, "SAMPLE_SECONDS", 0.0)
    metrics, events, stop = Metrics(con), queue.SimpleQueue[Event](), threading.Event()
    hangs, let_go = threading.Event(), threading.Event()
    look_up = metrics.lags

    def hanging() -> object:
        hangs.set()
        let_go.wait(WAIT_SECONDS)
        return look_up()

    def observe(event: Event) -> None:
        metrics.note(event)
        events.put(event)

    run = threading.Thread(
        target=lambda: con.run(stop=stop, interval=0.05, on_event=observe, pulse=metrics.pulse)
    )

    def wrote() -> Event:
        while (event := events.get(timeout=WAIT_SECONDS)).kind is not EventKind.WROTE:
            pass
        return event

    with metrics.served("127.0.0.1", 0) as address:
        run.start()
        try:
            con.execute("INSERT INTO feed VALUES (1), (2)")
            wrote()
            text = _page(address)
            assert 'ctsql_rows_inserted_total{object="copy"} 2.0' in text
            assert 'ctsql_lag_commits{kind="continual task",object="copy"} 0.0' in text
            assert 'ctsql_jvm_memory_used_bytes{area="heap"}' in text
            monkeypatch.setattr(metrics, "lags", hanging)
            host, port = address.removeprefix("http://").removesuffix("/metrics").split(":")
            with metrics.served(host, 0) as other:
                port = other.removesuffix("/metrics").rpartition(":")[2]
                with socket.create_connection((host, int(port))) as silent:
                    silent.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")  # and reads nothing
                    assert hangs.wait(WAIT_SECONDS)
                    con.execute("INSERT INTO feed VALUES (3)")
                    assert wrote().inserted == 1
                    assert not let_go.is_set()
                let_go.set()
        finally:
            let_go.set()
            stop.set()
            run.join()
    with monkeypatch.context() as changed:
        changed.setattr(metrics._reader, "_local", _NoReader())
        (row,) = look_up()
        assert (row.object, row.state, row.lag_versions) == ("copy", "up to date", 0)


class _NoReader:
    """A reader of logs as for a store that only Spark reaches."""

    def __getattr__(self, name: str) -> object:
        raise NeedsSpark(name)
