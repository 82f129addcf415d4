"""A line on standard error for work of more than a second: what runs, and for how long.

Only on a terminal that is not dumb. Callers that print remove it first by :meth:`Progress.pause`,
or print inside of :meth:`Progress.hide`.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.spinner import Spinner

PATIENCE_SECONDS = 1.0
LABEL_SECONDS = 0.5  # how often the label is read again
_FRAME_SECONDS = 0.1
_CLEAR_LINE = "\r\x1b[K"


class Progress:
    """Draws one line while work runs."""

    def __init__(self, stream: TextIO | None = None, *, enabled: bool | None = None) -> None:
        self._stream = stream or sys.stderr
        console = Console(file=self._stream)
        usable = console.is_terminal and not console.is_dumb_terminal
        self.enabled = usable if enabled is None else enabled
        self._frames = Spinner("dots").frames
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None
        self._drawn = False

    @contextmanager
    def running(self, label: Callable[[], str]) -> Iterator[None]:
        """Show progress and the elapsed time while a block runs.

        ``label`` is called repeatedly; while it is empty, no line is shown and no time counted.
        """
        if not self.enabled:
            yield
            return
        stop = self._stop = threading.Event()
        thread = threading.Thread(target=self._draw, args=(label, stop), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.pause()
            thread.join()

    def pause(self) -> None:
        """Remove the line and show no other; may be called at any time and from any thread."""
        with self._lock:
            if self._stop is not None:
                self._stop.set()
                self._stop = None
            self._clear()

    @contextmanager
    def hide(self) -> Iterator[None]:
        """Hide the line while a block prints; may be used in any thread."""
        with self._lock:
            self._clear()
            yield

    def _clear(self) -> None:
        if self._drawn:
            self._write(_CLEAR_LINE)
            self._drawn = False

    def _draw(self, label: Callable[[], str], stop: threading.Event) -> None:
        start = label_at = time.monotonic()
        if stop.wait(PATIENCE_SECONDS):
            return
        turn, label_text = 0, label()
        while True:
            if time.monotonic() - label_at >= LABEL_SECONDS:
                label_text, label_at = label(), time.monotonic()
            with self._lock:
                if stop.is_set():
                    return
                if label_text:
                    frame = self._frames[turn % len(self._frames)]
                    text = f"{frame} {label_text} {time.monotonic() - start:.1f} s"
                    self._write(_CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
                    self._drawn = True
                else:
                    self._clear()
                    start = time.monotonic()
            turn += 1
            if stop.wait(_FRAME_SECONDS):
                return

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self.enabled = False
