"""A subscription that is stopped ends, whatever it is doing; without Spark."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError, error
from ctsql.results.subscription import Subscription


def _cancelled_at_a_look(*, by_stop: bool) -> list[object]:
    """What is delivered by one whose first look is cancelled."""

    def look(_engine: object, stop: threading.Event) -> list[int]:
        if by_stop:
            assert not stop.is_set()
            made.stop()  # as another thread does
        raise error("STATEMENT_CANCELLED")

    feed: Any = SimpleNamespace(columns=(), place=None, look=look)
    made = Subscription(
        feed,
        open_engine=lambda: nullcontext(),  # type: ignore[arg-type,return-value]
        convert=nullcontext,
        progress=False,
        auto_commit=True,
        interval=0.01,
    )
    return list(made)


def test_it_ends_where_it_was_stopped_while_it_brings_something_up() -> None:
    """No error: to stop is what was asked for."""
    assert _cancelled_at_a_look(by_stop=True) == []


def test_it_fails_where_somebody_else_has_cancelled_it() -> None:
    with pytest.raises(CtsqlError, match="STATEMENT_CANCELLED"):
        _cancelled_at_a_look(by_stop=False)
