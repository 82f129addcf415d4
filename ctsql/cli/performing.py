"""The frame of each command: its streams, its connection and its exit code."""

import codecs
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ctsql.catalog.errors import Error
from ctsql.cli.options import check_file
from ctsql.console.progress import Progress
from ctsql.console.script import FAILED, OK, OutputSettings, Runner
from ctsql.rendering.output_file import OutputFile
from ctsql.rendering.show import messages

if TYPE_CHECKING:
    from ctsql.api import Connection

BROKEN_PIPE = 141


def perform(
    work: Callable[[Runner], int],
    *,
    warehouse: str,
    master: str | None,
    output: str | None = None,
    read_only: bool = False,
    create: bool = True,
    is_short: bool = False,
    **settings: Any,
) -> NoReturn:
    """Run the work of a command with a connection; end the process with the returned exit code.

    Args:
        output: rows go to this file, which an error leaves unchanged; else to standard output.
        read_only, create: as for :func:`ctsql.connect`.
        is_short: whether a Spark started for this command ends soon.
        settings: others of :class:`~ctsql.console.script.OutputSettings`.
    """
    _check_current_folder()
    check_file(output, warehouse)
    try:
        file = None if output is None else OutputFile(output)
    except OSError as problem:
        raise click.UsageError(f"Cannot write {output}: {problem.strerror}.") from problem
    code = FAILED
    try:
        connection = connect()(warehouse, master=master, read_only=read_only, create=create)
        connection.is_short = is_short
        out = sys.stdout if file is None else file
        shown = OutputSettings(
            out=out, messages=messages(), progress=Progress(sys.stderr), **settings
        )
        code = _work_with(Runner(connection, shown), work)
    finally:
        _finish(file, code, output or "standard output")
    click.get_current_context().exit(code)


def guarded(
    work: Callable[[Runner], int | None], code_of: Callable[[Error], int] = lambda _: FAILED
) -> Callable[[Runner], int]:
    """Run work as :meth:`Runner.guard` does."""
    return lambda runner: runner.guard(lambda: work(runner), code_of=code_of)


def connect() -> "Callable[..., Connection]":
    """The function that opens a warehouse; tests replace it."""
    given = click.get_current_context().obj
    if given is not None:
        return given  # type: ignore[no-any-return]
    from ctsql.api import connect

    return connect


def _work_with(runner: Runner, work: Callable[[Runner], int]) -> int:
    connection = runner.connection
    try:
        return work(runner)
    except BrokenPipeError:
        _drop_stdout()
        return BROKEN_PIPE
    finally:
        # Closing waits for running work, so skip it after an abandoned start or statement.
        if connection.started and not runner.abandoned:
            connection.close()


def _check_current_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError as problem:
        raise click.UsageError(
            "The current folder was deleted, and Java cannot start there. Type: cd FOLDER, "
            "with an existing folder."
        ) from problem


def _finish(file: OutputFile | None, code: int, name: str) -> None:
    """Write the remaining rows; after a failure the file is unchanged."""
    try:
        if file is None:
            sys.stdout.flush()
        else:
            if code == OK:
                file.publish()
            file.close()
    except OSError as problem:  # the disk is full
        if file is None:
            _drop_stdout()
        if code == OK:
            message = f"Cannot write {name}: {problem.strerror}."
            raise click.ClickException(message) from problem


class _ClosedStream(io.TextIOBase):
    name = "<stdout>"

    def write(self, _text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


def prepare_output() -> None:
    """Prepare standard output for rows; writing them fails if the caller has closed it.

    Rows are UTF-8 in any locale. A terminal keeps its own encoding; characters that it lacks are
    escaped.
    """
    if sys.stdout is None:
        sys.stdout = _ClosedStream()
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper):
        return
    if out.isatty():
        out.reconfigure(errors="backslashreplace")
    elif codecs.lookup(out.encoding).name != "utf-8":
        out.reconfigure(encoding="utf-8")


def _drop_stdout() -> None:
    """Redirect standard output to the null device, so that flushing it at exit cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
