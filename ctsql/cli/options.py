"""Options that several commands share, and the types of their values."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ctsql.catalog.errors import CtsqlError, check_text, sentence_of
from ctsql.catalog.locations import location_fault
from ctsql.console.variables import NAME
from ctsql.rendering.output_file import OutputFile, check_output
from ctsql.rendering.show import Format

F = TypeVar("F", bound=Callable[..., Any])


class Value(click.types.StringParamType):
    """The value of an option or an argument.

    Args:
        read: returns the value of a text; raises ValueError with the end of a sentence about it.
        is_text: whether it must be UTF-8. Names of files may be any bytes.
    """

    def __init__(self, read: Callable[[str], Any] = str, *, is_text: bool = True) -> None:
        self._read = read
        self._is_text = is_text

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value of a text."""
        name = param.opts[-1] if isinstance(param, click.Option) else "the file or folder"
        try:
            if self._is_text:
                check_text(value, name)
            return self._read(value)
        except CtsqlError as problem:
            raise click.UsageError(f"{problem.message}. {problem.detail}", ctx) from problem
        except ValueError as problem:
            raise click.UsageError(f"{name} {problem}.", ctx) from problem


def _location(text: str) -> str:
    fault = location_fault(text)
    if fault is not None:
        raise ValueError(f"{text.strip() and text} {fault}".lstrip())
    return text


def _address(text: str) -> tuple[str, int]:
    """``[host:]port``; a host of IPv6 is in brackets.

    >>> _address("9464"), _address("0.0.0.0:80"), _address("[::1]:80")
    (('127.0.0.1', 9464), ('0.0.0.0', 80), ('::1', 80))
    """
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535 or (colon and not host):
        raise ValueError(f"takes [HOST:]PORT, as 9464; {text!r} is none")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


TEXT, ADDRESS = Value(), Value(_address)
LOCATION = Value(_location, is_text=False)


def _by_name(
    context: click.Context, _param: click.Parameter, assignments: Sequence[str]
) -> dict[str, str]:
    pairs = [one.partition("=") for one in assignments]
    for name, equals, _ in pairs:
        if not equals or not NAME.fullmatch(name):
            message = f"--set takes NAME=VALUE, as --set day=2026-01-31; got {name}"
            raise click.UsageError(message, context)
    return {name: value for name, _, value in pairs}


def common(*, has_warehouse: bool = True) -> Callable[[F], F]:
    """The options of every command: ``warehouse``, ``master``, ``debug`` and ``quiet``.

    ``has_warehouse``: whether the help lists the option for the warehouse.
    """
    added = (
        click.option(
            "-w",
            "--warehouse",
            type=Value(_location),
            envvar="CTSQL_WAREHOUSE",
            metavar="FOLDER",
            default="warehouse",
            show_default=True,
            show_envvar=True,
            hidden=not has_warehouse,
            help="Folder or URI where tables live.",
        ),
        click.option("--master", type=TEXT, help="Spark master; local[*] by default."),
        click.option("-q", "--quiet", is_flag=True, help="No status lines such as INSERT 0 3."),
        click.option("--debug", is_flag=True, help="Show the stack trace of errors."),
    )

    def add(function: F) -> F:
        for option in reversed(added):
            function = option(function)
        return function

    return add


folder = click.argument("folder", type=LOCATION)


def file(*names: str, what: str) -> Callable[[F], F]:
    """An option with the path of a file; ``what`` is its help."""
    return click.option(*names, type=LOCATION, metavar="FILE", help=what)


def count(name: str, what: str) -> Callable[[F], F]:
    """An option with a number, at least one."""
    return click.option(name, type=click.IntRange(min=1), metavar="N", help=what)


output = file("-o", "--output", what="Write rows to this file.")
format_name = click.option(
    "--format",
    "format_name",
    type=click.Choice([f.value for f in Format]),
    default="table",
    show_default=True,
    help="How rows are written.",
)
variables = click.option(
    "--set",
    "variables",
    type=TEXT,
    multiple=True,
    callback=_by_name,
    metavar="NAME=VALUE",
    help="A variable, for :NAME, :'NAME' (a string) and :\"NAME\" (an identifier) in SQL.",
)


def as_json(what: str) -> Callable[[F], F]:
    """``--json``; ``what`` says what becomes JSON."""
    return click.option("--json", "as_json", is_flag=True, help=what)


def prune(function: F) -> F:
    """``--prune``."""
    text = "Drop objects that are not in the folder."
    return click.option("--prune", is_flag=True, help=text)(function)


def check_file(path: str | None, warehouse: str) -> None:
    """Refuse a file that cannot be written, or is in a folder of ctsql's or Delta's files."""
    if path is None:
        return
    try:
        check_output(path, warehouse)
        if os.path.isfile(path) or not os.path.exists(path):
            OutputFile(path).close()  # this leaves no file
    except CtsqlError as problem:
        raise click.UsageError(f"{sentence_of(problem)} {problem.detail}") from problem
    except OSError as problem:
        raise click.UsageError(f"Cannot write {path}: {problem.strerror}.") from problem
