"""The program: its named commands, and the unnamed one that runs statements.

Exit codes: 0 all ran; 1 a statement failed (or the environment prevents it); 2 bad usage; 130
interrupted by Ctrl-C; 141 the reader of standard output has ended.
"""

import sys
from typing import Any

import click

from ctsql import __version__
from ctsql.cli import options
from ctsql.cli.commands import apply, doctor, dump, plan, status, test, warm_up
from ctsql.cli.performing import perform, prepare_output
from ctsql.cli.run import run
from ctsql.cli.serve import serve
from ctsql.cli.statements import read_sources, run_sources
from ctsql.console.script import FAILED, Runner
from ctsql.rendering.output_file import user_path
from ctsql.rendering.show import Format
from ctsql.runtime.spark.versions import NEWEST, OLDEST, as_text

_UNNAMED = ""  # the name of the command that runs statements; a file cannot have it


class Program(click.Group):
    """Finds the command's name among the arguments; without a name, the unnamed command runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the name of the command first."""
        at = self._place_of_name(args)
        ordered = [_UNNAMED, *args] if at is None else [args[at], *args[:at], *args[at + 1 :]]
        return super().parse_args(ctx, ordered)

    def _place_of_name(self, args: list[str]) -> int | None:
        """The index of the first argument that is not an option, if it names a command."""
        every = [p for c in self.commands.values() for p in c.params]
        known = {p.opts[-1]: p for p in every if isinstance(p, click.Option)}
        reading = click.Command(
            None,
            params=[*known.values(), click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)],
            context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
        )
        read = reading.make_context(None, list(args), resilient_parsing=True)
        rest = read.params["rest"]
        return len(args) - len(rest) if rest and rest[0] in self.commands and rest[0] else None

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        prepare_output()
        try:
            return super().invoke(context)
        except click.UsageError as problem:
            if context.invoked_subcommand != plan.name:
                raise
            raise _PlanUsageError(problem.format_message(), problem.ctx) from problem


class _PlanUsageError(click.UsageError):
    """Bad usage of ``ctsql plan``: exit code 1, because 2 means that something would change."""

    exit_code = FAILED


class _Statements(click.Command):
    """The command without a name, whose help is the program's."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Give it the program's name in messages."""
        assert parent is not None  # the program
        return super().make_context(parent.info_name, args, obj=parent.obj, **extra)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, and the commands with names."""
        super().format_options(context, formatter)
        main.format_commands(context, formatter)


_VERSION = f"ctsql %(version)s for Spark {as_text(OLDEST)} to {as_text(NEWEST)}"
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.command(
    cls=_Statements,
    hidden=True,
    context_settings=_CONTEXT,
    epilog="Exit status: 0 all ran, 1 a statement failed, 2 bad usage, 130 interrupted.",
)
@click.argument("files", nargs=-1, type=options.LOCATION, metavar="[FILE... | COMMAND]")
@click.option(
    "-c",
    "--command",
    "commands",
    type=options.TEXT,
    multiple=True,
    metavar="SQL",
    help="Run this; repeatable.",
)
@options.common()
@options.format_name
@options.output
@options.variables
@click.option("--read-only", is_flag=True, help="Refuse every statement that writes.")
@click.option("--echo", is_flag=True, help="Print each statement before it runs.")
@click.option("-X", "--no-rc", is_flag=True, help="Do not run ~/.ctsqlrc at the prompt.")
@click.version_option(__version__, "-v", "--version", message=_VERSION)
def statements(
    files: tuple[str, ...],
    commands: tuple[str, ...],
    format_name: str,
    no_rc: bool,
    **given: Any,
) -> None:
    """Continual tasks and materialized views on Spark and Delta Lake.

    Runs the statements of each FILE (- is standard input), or those of -c. Without either: a prompt
    if standard input is a terminal, else the statements from standard input.

    ctsql COMMAND --help shows a command's options. For a file with a command's name give its path:
    ./run, for example.
    """
    if files and commands:
        raise click.UsageError("Give files or -c, not both.")
    is_prompt = not files and not commands and sys.stdin.isatty()
    sources = [] if is_prompt else read_sources(files, commands, list(filter(None, main.commands)))

    def work(runner: Runner) -> int:
        if not is_prompt:
            return run_sources(runner, sources)
        from ctsql.shell.repl import Repl

        return Repl(runner).run(rc_file=None if no_rc else user_path("~/.ctsqlrc"))

    perform(
        work,
        format=Format(format_name),
        pager=is_prompt,
        is_short=bool(commands),
        **given,
    )


main = Program(
    name="ctsql",
    commands={
        _UNNAMED: statements,
        **{str(c.name): c for c in (run, serve, status, test, plan, apply, dump, warm_up, doctor)},
    },
    add_help_option=False,
    context_settings=_CONTEXT,
)
