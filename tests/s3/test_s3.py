"""A warehouse on S3: an emulation on this machine, Spark's own connector, and Delta's rules for it.

Delta's log store for S3 excludes the writers of one process only, so one process writes at a time
here. What must hold: each batch that was acknowledged is in, one that was not is in whole or not
at all, and outputs are what their inputs make of them.
"""

import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests.crash.killed_processes import SECONDS_TO_END, SECONDS_TO_START, Child, seed
from tests.s3.programs import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.s3, pytest.mark.timeout(3600)]

BUCKET = "lake"
CONNECTOR = "org.apache.hadoop:hadoop-aws:3.5.0"
KILLS = 4
SETTINGS = """
spark.jars.packages {connector}
spark.hadoop.fs.s3a.endpoint {endpoint}
spark.hadoop.fs.s3a.endpoint.region eu-central-1
spark.hadoop.fs.s3a.access.key key
spark.hadoop.fs.s3a.secret.key secret
spark.hadoop.fs.s3a.path.style.access true
"""


class Store:
    """A warehouse in the bucket, and the processes on it."""

    def __init__(self, uri: str, logs: Path) -> None:
        self.uri = uri
        self.logs = logs
        self.children: list[Child] = []

    def start(self, name: str, *more: object) -> Child:
        """Start a program of :mod:`tests.s3.programs`."""
        log = self.logs / f"{len(self.children)}-{name}.log"
        told = [str(one) for one in more]
        child = Child("-m", "tests.s3.programs", name, self.uri, *told, log=log)
        self.children.append(child)
        return child

    def run(self, name: str, *more: object) -> list[list[Any]]:
        """Run a program to its end; its events."""
        child = self.start(name, *more)
        child.finish(SECONDS_TO_START + SECONDS_TO_END)
        return child.events


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The emulation, with a bucket in it, and Spark's settings for it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("s3")
    address = f"http://127.0.0.1:{port}"
    with (folder / "moto.log").open("w") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _make_bucket(address, server)
        settings = SETTINGS.format(connector=CONNECTOR, endpoint=address)
        (folder / "spark-defaults.conf").write_text(settings)
        before = os.environ.get("SPARK_CONF_DIR")
        os.environ["SPARK_CONF_DIR"] = str(folder)
        yield address
        if before is None:
            del os.environ["SPARK_CONF_DIR"]
        else:
            os.environ["SPARK_CONF_DIR"] = before
    finally:
        server.kill()
        server.wait()


def _make_bucket(address: str, server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 60
    while True:
        try:
            urlopen(Request(f"{address}/{BUCKET}", method="PUT"), timeout=10).close()
            return
        except URLError:
            assert server.poll() is None, "the emulation has ended"
            assert time.monotonic() < until, "the emulation does not answer"
            time.sleep(0.2)


@pytest.fixture
def store(endpoint: str, tmp_path: Path) -> Iterator[Store]:
    """A warehouse of its own in the bucket."""
    found = Store(f"s3a://{BUCKET}/{tmp_path.name}", tmp_path)
    try:
        yield found
    finally:
        for child in found.children:
            if child.is_running():
                child.kill()


def check(store: Store) -> None:
    """What was acknowledged is in, whole and once, and outputs are what the feed makes of them."""
    said = store.run("tell")
    rows = {e[1]: Counter(map(tuple, e[2])) for e in said if e[0] == "rows"}
    events = [e for child in store.children for e in child.events]
    tried = {(e[1], e[2]) for e in events if e[0] == "try"}
    acked = {(e[1], e[2]) for e in events if e[0] == "ack"}
    there = {(w, n) for w, n, _ in rows["feed"]}
    assert acked, "nothing was written"
    assert acked <= there <= tried
    assert rows["feed"] == Counter((w, n, i) for w, n in there for i in range(ROWS))
    assert rows["copy"] == rows["feed"]
    newest = {w: max(n for v, n in there if v == w) for w, _ in there}
    assert rows["newest"] == Counter(newest.items())
    assert rows["per_writer"] == Counter((w, n, ROWS, sum(range(ROWS))) for w, n in there)
    assert [e[1] for e in said if e[0] == "wrong"] == [[]]


def test_killed_writers(store: Store) -> None:
    """One writer after the other, killed with SIGKILL at random moments, and a last one."""
    draw = random.Random(seed())
    store.run("set_up")
    for number in range(KILLS):
        child = store.start("write", 1, 1000 * number, 1000 * number + 999)
        child.wait_for("ack")
        time.sleep(draw.uniform(0, 8))
        child.kill()
    store.run("write", 1, 1000 * KILLS, 1000 * KILLS + 2)
    check(store)


def test_two_writers_in_one_process(store: Store) -> None:
    """They race for every version of every log."""
    store.run("set_up")
    store.run("race", 5)
    check(store)


def test_small_changes_are_as_on_a_local_disk(store: Store, tmp_path: Path) -> None:
    """This process reads and writes few rows itself, and Spark has no more jobs than there."""
    said = []
    for place in (store, Store(str(tmp_path / "warehouse"), tmp_path / "local")):
        place.logs.mkdir(exist_ok=True)
        place.run("set_up")
        said.append(dict(e for e in place.run("jobs") if e[0] in ("store", "jobs")))
    assert said[0] == said[1]
    assert said[0]["store"]
    check(store)
