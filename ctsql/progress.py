"""A spinner with the elapsed time on standard error, for work of more than a second.

Only on a terminal that is not dumb. Callers of ``print`` remove it first by :meth:`Progress.pause`.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.spinner import Spinner

PATIENCE_SECONDS = 1.0
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
        """Show what is going on, asked for each time, and the elapsed time while a block runs."""
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
        """Remove the line for good; may be called at any time and from any thread."""
        with self._lock:
            if self._stop is not None:
                self._stop.set()
                self._stop = None
            if self._drawn:
                self._write(_CLEAR_LINE)
                self._drawn = False

    def _draw(self, label: Callable[[], str], stop: threading.Event) -> None:
        begun = time.monotonic()
        if stop.wait(PATIENCE_SECONDS):
            return
        turn = 0
        while True:
            with self._lock:
                if stop.is_set():
                    return
                frame = self._frames[turn % len(self._frames)]
                elapsed = time.monotonic() - begun
                self._write(f"{_CLEAR_LINE}{frame} {label()} {elapsed:.1f} s")
                self._drawn = True
            turn += 1
            if stop.wait(_FRAME_SECONDS):
                return

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self.enabled = False
