"""The statements of files, of ``-c`` and of standard input, one source after the other."""

import io
import os
import shlex
import signal
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import FrameType

import click

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.spans import Source
from ctsql.console.interruptible import handle_signals
from ctsql.console.script import FAILED, OK, Runner
from ctsql.console.variables import substitute
from ctsql.shell.commands import parse_command, statement_of
from ctsql.shell.copying import copy_statement


def read_sources(
    files: Sequence[str], commands: Sequence[str], names: Collection[str]
) -> list[Source]:
    r"""Read all sources before anything runs: a missing file is bad usage.

    ``\copy`` of ``-c`` is unchanged, as it may read the standard input. ``names`` are the names of
    commands: a missing file's name may be a misspelt one.
    """
    if commands:
        texts = ["<command>", *(f"<command {n}>" for n in range(2, len(commands) + 1))]
        pairs = zip(commands, texts, strict=True)
        return [Source(_statement_of(text), name) for text, name in pairs]
    return [_read(name, names) for name in files or ("-",)]


def _statement_of(text: str) -> str:
    r"""The SQL of ``-c``, which may also be a command such as ``\d``."""
    try:
        command = parse_command(text)
    except CtsqlError as problem:
        raise click.UsageError(f"{problem.message}. {problem.hint or ''}".rstrip()) from problem
    if command is None or command.name == "copy":
        return text
    statement = statement_of(command)
    if statement is None:
        raise click.UsageError(f"{text.strip()} is for the prompt only.")
    return statement


def _read(name: str, names: Collection[str]) -> Source:
    try:
        if name == "-":
            raw, name = sys.stdin.buffer.read(), "<stdin>"
        else:
            raw = Path(name).read_bytes()
        return Source(raw.decode("utf-8-sig"), name)
    except OSError as problem:
        suggestion = did_you_mean(name, names)
        if not suggestion and not name.endswith(".sql"):
            suggestion = f"To open a warehouse: ctsql --warehouse {shlex.quote(name)}"
        raise click.UsageError(
            f"Cannot read {name}: {problem.strerror}. {suggestion}".rstrip()
        ) from problem
    except UnicodeDecodeError as problem:
        raise click.UsageError(f"{name} is not UTF-8 text (byte {problem.start}).") from problem


def run_sources(runner: Runner, sources: Sequence[Source]) -> int:
    """Run all statements of all sources; returns the exit code."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        """End a subscription as Ctrl-C does, and everything else by default."""
        if not runner.stop_live():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    with handle_signals(terminate, signal.SIGTERM):
        for position, source in enumerate(sources):
            is_copy = source.text.lstrip().startswith(r"\copy")
            code = _copy(runner, source) if is_copy else runner.run_source(source)
            if code != OK or runner.stopped:
                for other in sources[position + 1 :]:
                    runner.settings.note(f"{other.name} was not run")
                return code
    return OK


def _copy(runner: Runner, source: Source) -> int:
    r"""``-c '\copy t FROM STDIN'``: the rows are what the standard input holds."""
    settings = runner.settings
    command = parse_command(source.text)
    assert command is not None  # run_sources has checked
    argument = substitute(command.argument, settings.variables)
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="")
    try:
        with copy_statement(argument, lines, settings.out) as statement:
            return runner.run_span(Source(statement, source.name).whole())
    except CtsqlError as problem:
        settings.fail(problem)
        return FAILED
    finally:
        lines.detach()
