"""A process that serves a made page and metrics, and ticks meanwhile; for the tests of the server.

    python -m tests.helpers.served_page DESCRIPTORS

It prints the two addresses as JSON. When its standard input ends, it prints what it measured.
"""

import json
import os
import resource
import select
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from prometheus_client import CollectorRegistry, ProcessCollector, make_asgi_app

from ctsql.export import http_server
from ctsql.status_page.site import served
from tests.helpers.made_pages import ask, shop

FILES = 200
"""The files that a tick has open at once."""


def main() -> None:
    """Serve until the end of the standard input."""
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    http_server.HEADERS_SECONDS = 3.0
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    descriptors, seconds = 0, list[float]()
    with ExitStack() as stack:
        page = stack.enter_context(served(ask, shop(), "shop", "127.0.0.1", 0))
        metrics = stack.enter_context(
            http_server.served(make_asgi_app(registry), "127.0.0.1", 0, "metrics")
        )
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(json.dumps({"page": page.address, "metrics": f"{metrics}/metrics"}), flush=True)
        while not select.select([sys.stdin], [], [], 0.05)[0]:
            begun = time.monotonic()
            descriptors = max(descriptors, _tick(folder))
            seconds.append(time.monotonic() - begun)
    seen = {"ticks": len(seconds), "slowest": max(seconds, default=0.0), "descriptors": descriptors}
    print(json.dumps(seen), flush=True)


def _tick(folder: Path) -> int:
    """Write files, all open at once; gives how many descriptors the process had then."""
    with ExitStack() as stack:
        for number in range(FILES):
            stack.enter_context((folder / str(number)).open("w")).write("x")
        return len(os.listdir("/dev/fd"))


if __name__ == "__main__":
    main()
