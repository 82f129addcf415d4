"""Texts of the JVM that are fetched in pieces."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.runtime.delta.internals.jvm import ANSWER_CHARS_MAX, JvmObjects


class JavaText:
    """A ``StringBuilder``: it counts UTF-16, and half of a pair leaves the JVM as ``?``."""

    def __init__(self, text: str) -> None:
        self._units = text.encode("utf-16-le")
        self.calls = 0

    def length(self) -> int:
        """In units of two bytes."""
        return len(self._units) // 2

    def substring(self, start: int, end: int) -> str:
        """As a socket gives it."""
        self.calls += 1
        text = self._units[2 * start : 2 * end].decode("utf-16-le", errors="surrogatepass")
        return "".join("?" if 0xD800 <= ord(c) < 0xE000 else c for c in text)


def _fetched(text: str) -> tuple[str, int]:
    java: Any = JavaText(text)
    jvm = JvmObjects.__new__(JvmObjects)
    jvm._text = lambda: None
    joined = jvm.join(SimpleNamespace(addString=lambda *_: java), "\n")
    return joined, java.calls


@pytest.mark.parametrize("before", range(ANSWER_CHARS_MAX - 3, ANSWER_CHARS_MAX + 2))
@pytest.mark.parametrize("sign", ["\U0001f600", "?", "\U0001f600?\U0001f600", "??", "e"])
def test_no_sign_is_cut_in_two(before: int, sign: str) -> None:
    """An emoji in a path or a bound stays one where a piece ends within it."""
    for text in ("x" * before + sign + "y" * ANSWER_CHARS_MAX, "x" * before + sign):
        assert _fetched(text)[0] == text


def test_a_text_takes_a_call_for_each_piece() -> None:
    """None of one that is empty."""
    assert _fetched("x" * (2 * ANSWER_CHARS_MAX))[1] == 2
    assert _fetched("") == ("", 0)
