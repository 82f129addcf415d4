"""Hostile clients of the status page and the metrics: what they cannot take from a service."""

import json
import logging
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from ctsql.export import http_server
from ctsql.export.http_server import connections_max

DESCRIPTORS = 1024
HOSTILE = 2_000
PATIENCE_SECONDS = 60.0

HALF_OPEN = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
WAYS = {
    "nothing": b"",
    "half-open": HALF_OPEN,
    "slow header": HALF_OPEN + b"X: ",
    "not HTTP": b"\x16\x03\x01 hello\r\n\r\n",
    "never reads": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
    "slow body": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\nx",
    "too much": b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000,
    "upgrade": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\n"
    b"Upgrade: websocket\r\n\r\n",
}
"""What a hostile client sends, and then waits."""


@dataclass(slots=True)
class Service:
    """A process that serves and ticks; ``seen`` is there when it has ended."""

    page: str
    metrics: str
    seen: dict[str, Any] = field(default_factory=dict)


@contextmanager
def service(log: Path) -> Iterator[Service]:
    command = [sys.executable, "-m", "tests.helpers.served_page", str(DESCRIPTORS)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            running = Service(**json.loads(process.stdout.readline()))
            yield running
            process.stdin.close()
            running.seen.update(json.loads(process.stdout.readline()))
        finally:
            process.kill()


@contextmanager
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def place(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
    return host, int(port)


def opened(address: str, sent: bytes, client: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(place(address), PATIENCE_SECONDS, source_address=(client, 0))
    with suppress(ConnectionError):  # closed meanwhile, as is right
        made.sendall(sent)
    return made


def is_served(address: str, client: str = "127.0.0.1") -> bool:
    """Whether a well-behaved client is answered."""
    transport = httpx.HTTPTransport(local_address=client)
    with httpx.Client(transport=transport, timeout=PATIENCE_SECONDS) as asking:
        return asking.get(address).status_code == 200


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed a connection."""
    client.settimeout(PATIENCE_SECONDS)
    try:
        while client.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.thorough
def test_hostile_clients_take_nothing_from_a_service(tmp_path: Path) -> None:
    """2,000 hold what they can get: ticks go on, others are answered, the log stays short."""
    log = tmp_path / "log"
    with ExitStack() as stack:
        stack.enter_context(many_descriptors())
        running = stack.enter_context(service(log))
        ways = list(WAYS.values())
        for number in range(HOSTILE):
            address = running.metrics if number % 3 == 0 else running.page
            stack.enter_context(opened(address, ways[number % len(ways)]))
        for address in (running.page, running.metrics):
            assert is_served(address)
            assert is_served(address, "127.0.0.2")
        flood = stack.enter_context(flooding(running.page))
        end = time.monotonic() + PATIENCE_SECONDS
        while flood() < 50:
            assert time.monotonic() < end
            time.sleep(0.01)
        for _ in range(5):
            assert is_served(running.page, "127.0.0.2")
    assert running.seen["ticks"] > 3
    assert running.seen["descriptors"] < DESCRIPTORS / 2 + 100
    assert running.seen["slowest"] < PATIENCE_SECONDS
    assert log.stat().st_size < 100_000


@contextmanager
def flooding(address: str) -> Iterator[Callable[[], int]]:
    """One client opens connections on and on; gives how many it has open."""
    stop, kept = threading.Event(), list[socket.socket]()

    def flood() -> None:
        while not stop.is_set():
            kept.append(opened(address, HALF_OPEN))
            time.sleep(0.002)
            if len(kept) > 1_000:
                kept.pop(0).close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        yield lambda: len(kept)
    finally:
        stop.set()
        thread.join()
        for client in kept:
            client.close()


LARGE_ASKED = threading.Event()


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """The application of these tests: /large is more than any buffer holds."""
    if scope["path"] == "/large":
        LARGE_ASKED.set()
    body = b"x" * (64 << 20) if scope["path"] == "/large" else b"well"
    if scope["path"] == "/fails":
        raise AssertionError("a fault of the application")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(http_server, "HEADERS_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "READ_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "connections_max", lambda: 8)
    with http_server.served(answer, "127.0.0.1", 0, "page") as address:
        yield address


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_connection_that_waits_is_closed(address: str, way: str) -> None:
    """Whatever is sent and then nothing more, the connection ends."""
    with opened(address, WAYS[way]) as client:
        assert is_closed(client)


def test_headers_that_trickle_in_are_not_waited_for(address: str) -> None:
    """A byte now and then gives no further time."""
    begun = time.monotonic()
    with opened(address, HALF_OPEN) as client, suppress(ConnectionError):
        while time.monotonic() < begun + PATIENCE_SECONDS:
            client.sendall(b"X")
            time.sleep(0.1)
    assert time.monotonic() < begun + PATIENCE_SECONDS


def test_a_client_that_does_not_read_is_closed(address: str) -> None:
    """What it has not read is not sent later."""
    with opened(address, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        assert LARGE_ASKED.wait(PATIENCE_SECONDS)
        time.sleep(2.0)
        read = 0
        with suppress(ConnectionError):
            while part := client.recv(1 << 20):
                read += len(part)
        assert read < 64 << 20


def test_the_oldest_that_waits_makes_room(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose request is complete keeps its connection, and so does the newest."""
    monkeypatch.setattr(http_server, "HEADERS_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(http_server, "READ_SECONDS", PATIENCE_SECONDS)
    LARGE_ASKED.clear()
    with ExitStack() as stack:
        asked = stack.enter_context(opened(address, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"))
        assert LARGE_ASKED.wait(PATIENCE_SECONDS)
        waiting = [stack.enter_context(opened(address, HALF_OPEN)) for _ in range(20)]
        assert is_closed(waiting[0])
        waiting[-1].sendall(b"\r\n")
        for client in (asked, waiting[-1]):
            assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_what_clients_send_is_not_logged(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A fault of the server itself is."""
    for way in ("not HTTP", "upgrade", "too much"):
        with opened(address, WAYS[way]) as client:
            assert is_closed(client)
    assert httpx.get(f"{address}/fails").status_code == 500
    assert [r.levelno for r in caplog.records if r.name == "uvicorn.error"] == [logging.ERROR]


def test_a_process_without_descriptors_goes_on_serving(address: str) -> None:
    """Connections wait until there is one."""
    assert is_served(address)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    client = socket.socket()
    client.settimeout(PATIENCE_SECONDS)
    taken = list[int]()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 20, before[1]))
        for _ in range(10):  # the connection above gives its descriptor back meanwhile
            with suppress(OSError):
                while True:
                    taken.append(os.dup(0))
            time.sleep(0.02)
        client.connect(place(address))
        client.sendall(HALF_OPEN + b"\r\n")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(100)
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    client.settimeout(PATIENCE_SECONDS)
    assert client.recv(100).startswith(b"HTTP/1.1 200")
    client.close()


@pytest.mark.parametrize(
    ("limit", "most"),
    [(1 << 20, 128), (1024, 128), (256, 32), (4, 1), (resource.RLIM_INFINITY, 128)],
)
def test_connections_are_a_part_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    """Well below what the process may have, however little that is."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert connections_max() == most
