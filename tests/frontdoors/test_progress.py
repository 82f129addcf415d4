"""The spinner of long statements."""

import io
import time

import pytest

from ctsql.console import progress
from ctsql.console.progress import Progress


def test_it_says_what_is_going_on_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once Spark has started it no longer says that it starts."""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LABEL_SECONDS", 0.0)
    out, said = io.StringIO(), ["starting Spark..."]

    def wait_for(text: str) -> None:
        until = time.monotonic() + 30
        while text not in out.getvalue():
            assert time.monotonic() < until, out.getvalue()
            time.sleep(0.01)

    with Progress(out, enabled=True).running(lambda: said[0]):
        wait_for("starting Spark...")
        said[0] = "running"
        wait_for("running")
        said[0] = ""
        wait_for("s\r\x1b[K")
        said[0] = "running 50 % of 2 tasks"
        wait_for("50 %")
    assert out.getvalue().endswith("\r\x1b[K")
