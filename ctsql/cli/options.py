"""Options that several commands have, and the kinds of their values."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ctsql.catalog.errors import CtsqlError, check_text, sentence_of
from ctsql.catalog.locations import location_fault
from ctsql.console.addresses import parse_address
from ctsql.console.user_paths import check_output
from ctsql.console.variables import NAME
from ctsql.rendering.show import Format

F = TypeVar("F", bound=Callable[..., Any])


class Text(click.types.StringParamType):
    """A text that UTF-8 can hold; names of files may be any bytes."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is."""
        try:
            check_text(str(value), _called(param))
        except CtsqlError as problem:
            raise click.UsageError(f"{problem.message}. {problem.detail}", ctx) from problem
        return value


class Location(click.Path):
    """A path, or a URI that leads where it seems to."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is."""
        fault = location_fault(os.fspath(value))
        if fault is not None:
            shown = f" {value}" if value.strip() else ""
            raise click.UsageError(f"{_called(param)}{shown} {fault}.", ctx)
        return super().convert(value, param, ctx)


class Warehouse(Location):
    """A location whose name UTF-8 can hold."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is."""
        return Text().convert(super().convert(value, param, ctx), param, ctx)


class Address(Text):
    """A host and a port."""

    name = "[host:]port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The pair."""
        try:
            return parse_address(super().convert(value, param, ctx))
        except ValueError as problem:
            message = f"{_called(param)} takes [HOST:]PORT, as 9464; {problem}."
            raise click.UsageError(message, ctx) from problem


def _called(param: click.Parameter | None) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else "the file or folder"


def _by_name(
    context: click.Context, _param: click.Parameter, assignments: Sequence[str]
) -> dict[str, str]:
    """The variables of ``--set``."""
    pairs = [one.partition("=") for one in assignments]
    for name, equals, _ in pairs:
        if not equals or not NAME.fullmatch(name):
            message = f"--set takes NAME=VALUE, as --set day=2026-01-31; got {name}"
            raise click.UsageError(message, context)
    return {name: value for name, _, value in pairs}


def common(*, has_warehouse: bool = True) -> Callable[[F], F]:
    """The options of every command: ``warehouse``, ``master``, ``debug`` and ``quiet``.

    Args:
        has_warehouse: whether the command's help names the warehouse. One that has none of its own
            takes the option, which may be in an alias.
    """
    added = (
        click.option(
            "-w",
            "--warehouse",
            type=Warehouse(),
            envvar="CTSQL_WAREHOUSE",
            default="warehouse",
            show_default=True,
            show_envvar=True,
            hidden=not has_warehouse,
            help="Folder or URI where tables live.",
        ),
        click.option("--master", type=Text(), help="Spark master; local[*] if not given."),
        click.option("-q", "--quiet", is_flag=True, help="No status lines such as INSERT 0 3."),
        click.option("--debug", is_flag=True, help="Show the stack trace of errors."),
    )

    def add(function: F) -> F:
        for option in reversed(added):
            function = option(function)
        return function

    return add


folder = click.argument("folder", type=Location())
output = click.option(
    "-o",
    "--output",
    type=Location(dir_okay=False),
    metavar="FILE",
    help="Write rows to this file.",
)
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
    type=Text(),
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
    text = "Drop objects and columns that are not in the folder."
    return click.option("--prune", is_flag=True, help=text)(function)


def check_file(path: str | None, warehouse: str) -> None:
    """Refuse to write a file where ctsql or Delta keeps its own."""
    if path is None:
        return
    try:
        check_output(path, warehouse)
    except CtsqlError as problem:
        raise click.UsageError(f"{sentence_of(problem)} {problem.detail}") from problem
