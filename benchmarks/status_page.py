"""The response times of the status page, over a warehouse with a long history.

    python -m benchmarks.status_page --objects 200 --ticks 10000

The warehouse is created as in benchmarks.observing, and ``ctsql serve`` is started. Measured are
the time from its start to the first answer, the first and later requests of the overview, an
object's page and the warehouse's page.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.observing import made, timed

ROUNDS = 5


@contextmanager
def served(warehouse: Path) -> Iterator[str]:
    """Serve the page; yields its address."""
    command = [sys.executable, "-m", "ctsql", "-w", str(warehouse), "serve", "--listen", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield process.stderr.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(10)


def got(address: str) -> str:
    """Fetch a page."""
    with urllib.request.urlopen(address, timeout=60) as answer:
        return str(answer.read().decode())


def measured(warehouse: Path) -> Iterator[tuple[str, float]]:
    """Each request, with its seconds."""
    start = time.perf_counter()
    with served(warehouse) as address:
        yield "start of the process", time.perf_counter() - start
        first = timed(lambda: got(address))
        yield "first view", first
        again = []
        for _ in range(ROUNDS):
            time.sleep(1.1)  # so that it looks again
            again.append(timed(lambda: got(address)))
        yield "later views", statistics.median(again)
        objects = re.findall(r'href="/(object/\w+)"', got(address))
        yield "an object", timed(lambda: got(address + objects[-1]))
        yield "the warehouse", timed(lambda: got(address + "warehouse"))


def main() -> None:
    """Create or reuse a warehouse, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=20)
    parser.add_argument("--ticks", type=int, default=500)
    parser.add_argument("--warehouse", type=Path, help="a folder for it, or one that is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        warehouse = options.warehouse or Path(folder) / "warehouse"
        made(warehouse, options.objects, options.ticks)
        for name, seconds in measured(warehouse):
            print(f"{name:24}{seconds:8.2f} s")


if __name__ == "__main__":
    main()
