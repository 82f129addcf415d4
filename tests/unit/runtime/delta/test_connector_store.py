"""What a file of a store behind Spark's connector has open is closed, whatever fails."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from ctsql.runtime.delta.stores.connector_store import _Input


class Store:
    """A store in the JVM; what ``fails`` raises."""

    def __init__(self, fails: str) -> None:
        self._fails = fails
        self.closed_names: list[str] = []

    def _made(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(close=self._calls(name, lambda: self.closed_names.append(name)))

    def _calls(self, name: str, call: Callable[[], object]) -> Callable[..., object]:
        def called(*_: object) -> object:
            result = call()
            if name == self._fails:
                raise Py4JError(f"{name} fails")
            return result

        return called

    def new_copies(self, path: str) -> object:
        return self._calls("new copies", lambda: self._made("copies"))()

    def stream_of(self, path: str, size: int) -> object:
        return self._calls("new stream", lambda: self._made("stream"))()

    def copy(self, stream: Any, place: int, size: int, copies: Any) -> None:
        self._calls("copy", lambda: None)()


def _open_files() -> set[str]:
    """The files that this process has open and that have no name any more."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the listing itself
            continue
    return {name for name in found if name.endswith("(deleted)")}


@pytest.mark.parametrize(
    ("fails", "names"),
    [
        ("new copies", []),
        ("new stream", ["copies"]),
        ("copy", ["stream", "copies"]),
        ("copies", ["stream", "copies"]),
        ("stream", ["stream", "copies"]),
    ],
)
def test_all_that_is_open_is_closed(fails: str, names: list[str]) -> None:
    """And what failed is an OSError of the read, or of closing."""
    before = _open_files()
    store: Any = Store(fails)
    file = _Input(store, "bucket/t/f", 4)
    with pytest.raises(OSError, match=rf"{fails} fails|shorter"):
        file.read(4)
    try:
        file.close()
    except OSError as problem:
        assert str(problem) == f"{fails} fails"  # noqa: PT017, for not every one fails in closing
    assert store.closed_names == names
    assert file.closed
    assert _open_files() == before
