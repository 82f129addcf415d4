"""Shows a table that is longer than the terminal in a pager: ``$PAGER``, or ``less -S``."""

import io
import os
import shutil
import signal
import sys
from typing import TextIO

import click

LESS = "-SRFX"
"""No folded lines, colours as they are, at once to the end if it fits, no other screen."""


class Pages(io.StringIO):
    """A text that is written as for a terminal, and kept."""

    def isatty(self) -> bool:
        """Return True: it is drawn for one."""
        return True


def show_pages(pages: Pages, out: TextIO) -> None:
    """Write what was kept; in a pager if it has more lines than the terminal."""
    text = pages.getvalue()
    if text.count("\n") < shutil.get_terminal_size().lines or not sys.stdin.isatty():
        out.write(text)
        out.flush()
        return
    os.environ.setdefault("LESS", LESS)
    # Ctrl-C is the pager's while it is open.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        click.echo_via_pager(text, color=True)
    finally:
        signal.signal(signal.SIGINT, before)
