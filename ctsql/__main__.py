"""Starts the command line: ``ctsql`` and ``python -m ctsql``."""

import os
import sys


def main() -> None:
    """Run the command line and end the process with its exit status."""
    open_standard_streams()
    from ctsql.cli.main import main as command_line

    command_line()


def open_standard_streams() -> None:
    """Open the null device for each standard stream that was closed at the start.

    Otherwise the next opened file becomes that stream. Standard output stays closed: writing to it
    fails.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor is this stream's
            if name != "stdout":
                setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    main()
