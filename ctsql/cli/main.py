"""The command line: arguments, exit codes and output streams.

Exit codes: 0 all ran; 1 a statement failed (or the environment prevents it); 2 bad usage; 130
interrupted by Ctrl-C; 141 the reader of standard output is gone.
"""

import codecs
import errno
import io
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

import click

from ctsql.catalog.errors import CtsqlError, check_text, sentence_of
from ctsql.catalog.locations import location_fault
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.spans import Source
from ctsql.cli.run import RunOptions, follow, load_hook
from ctsql.cli.serve import ADDRESS, serve
from ctsql.console.addresses import parse_address
from ctsql.console.progress import Progress
from ctsql.console.script import FAILED, OK, LogFormat, Runner, Settings
from ctsql.console.signals import handle_signals
from ctsql.console.user_paths import check_output, user_path
from ctsql.console.variables import NAME, substitute
from ctsql.rendering.output_file import OutputFile
from ctsql.rendering.show import Format, messages, write_result
from ctsql.shell.commands import parse_command, statement_of
from ctsql.shell.copying import copy_statement

if TYPE_CHECKING:
    from ctsql.api import Connection
    from ctsql.runtime.service.events import Event

BROKEN_PIPE = 141
TESTS_OF_SHORT = 10
"""So few tests are over before Java's second compiler pays (docs/decisions/0077)."""
_WITH_FOLDER = ("dump", "plan", "apply", "test")
COMMANDS = ("run", "status", "serve", *_WITH_FOLDER, "warm-up", "doctor")
"""The words that stand for a command in the place of a file."""


@click.command(
    context_settings={"help_option_names": [], "max_content_width": 100},
    epilog="Exit status: 0 all ran, 1 a statement failed, 2 bad usage, 130 interrupted.",
)
@click.argument(
    "files",
    nargs=-1,
    metavar="[FILE... | run | status | serve | dump, test, plan, apply FOLDER | warm-up | doctor]",
)
@click.option(
    "-c", "--command", "commands", multiple=True, metavar="SQL", help="Run this; repeatable."
)
@click.option(
    "-w",
    "--warehouse",
    envvar="CTSQL_WAREHOUSE",
    default="warehouse",
    show_default=True,
    show_envvar=True,
    help="Folder or URI where tables live.",
)
@click.option("--master", help="Spark master; local[*] if not given.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([f.value for f in Format]),
    default="table",
    show_default=True,
    help="How rows are written.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write rows to this file.")
@click.option("--read-only", is_flag=True, help="Refuse every statement that writes.")
@click.option("-q", "--quiet", is_flag=True, help="No status lines such as INSERT 0 3.")
@click.option("--echo", is_flag=True, help="Print each statement before it runs.")
@click.option("--debug", is_flag=True, help="Show the stack trace of errors.")
@click.option("--once", is_flag=True, help="With run: bring everything up to now, then end.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.01),
    metavar="SECONDS",
    help="With run: the most seconds between two looks at the tables; 1 if not given.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="With run: how many outputs are brought up at the same time; 1 if not given. With test: "
    "how many tests are run at the same time; if not given, several where there are many.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="With run: serve metrics for Prometheus at http://HOST:PORT/metrics; 127.0.0.1 if there "
    "is no HOST.",
)
@click.option(
    "--on-event",
    metavar="MODULE:FUNCTION",
    help="With run: call this function of Python with each event, as a commit or a failure.",
)
@click.option(
    "--serve",
    is_flag=False,
    flag_value=ADDRESS,
    metavar="[HOST:PORT]",
    help=f"With run: serve the status page as well, at {ADDRESS} if nothing is given.",
)
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    help=f"With serve: where; {ADDRESS} if not given. Other machines than this one need a token, "
    "CTSQL_SERVE_TOKEN or the one that is printed.",
)
@click.option(
    "--log-format",
    "log_format",
    type=click.Choice([f.value for f in LogFormat]),
    help="With run: how messages are written to standard error; text if not given.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="With run and status: one JSON object per line; with plan and apply: one JSON object.",
)
@click.option(
    "--prune",
    is_flag=True,
    help="With plan and apply: drop objects and columns that are not in the folder.",
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="With apply: only if it does what this plan says, which plan -o has written.",
)
@click.option("-k", "part", metavar="TEXT", help="With test: only tests with TEXT in their name.")
@click.option(
    "--junit",
    "junit_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="With test: write the results as XML, too, as CI systems read it.",
)
@click.option(
    "--set",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="A variable, for :NAME, :'NAME' (a string) and :\"NAME\" (an identifier) in SQL.",
)
@click.option("--remove", is_flag=True, help="With warm-up: delete the archives, and make none.")
@click.option("-X", "--no-rc", is_flag=True, help="Do not run ~/.ctsqlrc at the prompt.")
@click.option("-v", "--version", is_flag=True, help="Print the version and end.")
@click.option("-h", "--help", "wants_help", is_flag=True, help="Show this message and end.")
@click.pass_context
def main(context: click.Context, /, **arguments: Any) -> None:
    """Continual tasks and materialized views on Spark and Delta Lake.

    Runs the statements of each FILE (- is standard input), or those of -c. Without either: a prompt
    if standard input is a terminal, else the statements from standard input.

    "ctsql run" follows the sources until it is stopped; "ctsql status" lists tasks and views;
    "ctsql serve" shows them in a browser; "ctsql dump FOLDER" writes the statements that make the
    same objects again; "ctsql warm-up" makes later starts of Spark faster.
    "ctsql doctor" looks for what is wrong with Python, Java, Spark, Delta and the warehouse's disk.
    "ctsql test FOLDER" runs the TEST statements in its .sql files.
    "ctsql plan FOLDER" says what the definitions in a folder of .sql files would change;
    "ctsql apply FOLDER" does it.
    A file with one of these names is given as ./run, for example.
    """
    if arguments["version"]:
        from ctsql.runtime.spark.versions import NEWEST, OLDEST, as_text

        click.echo(f"ctsql {_version()} for Spark {as_text(OLDEST)} to {as_text(NEWEST)}")
        context.exit(OK)
    files: Sequence[str] = arguments["files"]
    command = files[0] if files and files[0] in COMMANDS else None
    if arguments["wants_help"]:
        click.echo(context.get_help() if command is None else _help_of(context, command))
        context.exit(OK)
    _open_closed_streams()
    _write_every_letter()
    try:
        _check(arguments, command)
    except click.UsageError as problem:
        if command == "plan":
            raise _PlanUsageError(problem.message) from problem
        raise
    connect = context.obj or _connect()
    # A plan is shown, and its file is written besides.
    with _output(None if command == "plan" else arguments["output"]) as out:
        context.exit(_dispatch(connect, arguments, command, out))


class _PlanUsageError(click.UsageError):
    """Bad usage of ``ctsql plan``, where 2 says that something would change."""

    exit_code = FAILED


_ABOUT = {
    "run": (
        "Follow the sources, and keep every task and view up to date, until it is stopped.",
        (
            "--once",
            "--interval",
            "--workers",
            "--metrics",
            "--on-event",
            "--serve",
            "--log-format",
            "--json",
            "--quiet",
        ),
    ),
    "serve": (
        "Serve a status page for browsers, read-only, until it is stopped: what reads what, how "
        "far everything is, what failed and what to type. On a local disk it needs no Spark.",
        ("--listen",),
    ),
    "dump": (
        "Write a file of SQL for each object into a folder, numbered in the order in which they "
        "run: ctsql -w OTHER FOLDER/*.sql makes the same objects in another warehouse. Rows are "
        "not written.",
        ("--quiet",),
    ),
    "warm-up": (
        "Make an archive of Spark's Java classes, about 150 MB in the cache folder, with which "
        "later starts of Spark are faster; say where it is, and how long a command takes without "
        "it and with it. Repeat it after Java, Spark or Delta was updated: an archive that does "
        "not fit is not used.",
        ("--remove", "--quiet"),
    ),
    "doctor": (
        "Look at Python, Java, Spark, Delta and its JARs, and the warehouse's disk, and run some "
        "statements in a temporary warehouse. Exit status: 0 all is well, 1 something is not; it "
        "says what to do.",
        (),
    ),
    "test": (
        "Run the TEST statements in the .sql files of a folder, each in a throw-away warehouse "
        "with the objects of the folder that it reads. Nothing else is read or written. Exit "
        "status: 0 all passed, 1 one failed, 2 bad usage, or no test.",
        ("-k", "--workers", "--junit", "--set"),
    ),
    "status": (
        "List every task and view with its state and its lag.",
        ("--json", "--format"),
    ),
    "plan": (
        "Say what the definitions in a folder of .sql files would change in the warehouse. Nothing "
        "is written but the file of -o, which apply --plan takes. Exit status: 0 nothing to do, 2 "
        "changes, 4 refused, 1 it could not be found out.",
        ("--prune", "--json", "--output", "--set"),
    ),
    "apply": (
        "Make the definitions of the warehouse those of a folder of .sql files, all at one T or "
        "none. Exit status: 0 done or nothing to do, 4 refused, 1 something failed.",
        ("--prune", "--plan", "--json", "--set", "--quiet"),
    ),
}
_OF_STATEMENTS_TOO = ("--quiet", "--json", "--format", "--output", "--set")
"""Options that commands share with files and statements; any other goes with its commands alone."""
_FOR_ALL = ("--warehouse", "--master", "--debug")
_WITHOUT = {"test": ("--warehouse",), "warm-up": ("--warehouse", "--master")}


def _help_of(context: click.Context, command: str) -> str:
    """The help of ``ctsql run`` or ``ctsql status``: only the options that matter there."""
    about, options = _ABOUT[command]
    lines = []
    for option in context.command.params:
        record = option.get_help_record(context)
        option_names = {*options, *_FOR_ALL} - {*_WITHOUT.get(command, ())}
        if record is not None and set(option.opts) & option_names:
            lines.append(record)
    formatter = context.make_formatter()
    formatter.write_usage(
        f"ctsql {command}", "[OPTIONS] FOLDER" if command in _WITH_FOLDER else "[OPTIONS]"
    )
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(about)
    with formatter.section("Options"):
        formatter.write_dl(lines)
    return formatter.getvalue().rstrip()


def _check(arguments: dict[str, Any], command: str | None) -> None:
    """Refuse meaningless combinations of arguments, and a current folder that is gone."""
    try:
        os.getcwd()
    except FileNotFoundError as problem:
        raise click.UsageError(
            "The current folder was deleted, and no Java starts there. Type: cd, and a folder "
            "that is there."
        ) from problem
    _check_texts(arguments)
    files: Sequence[str] = arguments["files"]
    _check_locations(arguments)
    if files and arguments["commands"]:
        raise click.UsageError("Give files or -c, not both.")
    if command in _WITH_FOLDER:
        if len(files) != 2:
            raise click.UsageError(f"Type: ctsql {command} FOLDER")
    elif command and len(files) > 1:
        raise click.UsageError(f"{command} takes no arguments; for a file type ./{command}")
    for option in main.params:
        name = option.opts[-1]
        commands = [c for c, (_, own) in _ABOUT.items() if name in own]
        is_bound = bool(commands) and name not in _OF_STATEMENTS_TOO
        if (
            is_bound
            and command not in commands
            and arguments[str(option.name)] not in (None, False)
        ):
            commands_text = ", ".join(f"ctsql {c}" for c in commands)
            also = ". With ctsql run type --serve." if name == "--listen" else ""
            raise click.UsageError(f"{name} goes with: {commands_text}{also}")
    for path in filter(None, (arguments["output"], arguments["junit_file"])):
        try:
            check_output(path, arguments["warehouse"])
        except CtsqlError as problem:
            raise click.UsageError(f"{sentence_of(problem)} {problem.detail}") from problem
    if arguments["as_json"] and command is None:
        raise click.UsageError(
            "--json goes with: ctsql run, status, plan, apply. See --format json."
        )


def _check_locations(arguments: dict[str, Any]) -> None:
    """Refuse empty paths, and URIs that lead elsewhere than they seem to."""
    options = ("warehouse", "output", "plan_file", "junit_file")
    given = [(f"--{name.removesuffix('_file')}", arguments[name]) for name in options]
    for what, text in [*given, *(("the file or folder", file) for file in arguments["files"])]:
        fault = None if text is None else location_fault(text)
        if fault is not None:
            shown = f" {text}" if text.strip() else ""
            raise click.UsageError(f"{what}{shown} {fault}.")


def _check_texts(arguments: dict[str, Any]) -> None:
    """Refuse arguments that are not UTF-8; names of files may be any bytes."""
    for option in main.params:
        if option.name == "files" or isinstance(option.type, click.Path):
            continue
        given = arguments[str(option.name)]
        for value in given if isinstance(given, tuple) else (given,):
            try:
                check_text(str(value), option.opts[-1])
            except CtsqlError as problem:
                raise click.UsageError(f"{problem.message}. {problem.detail}") from problem


def _dispatch(
    connect: "Callable[..., Connection]",
    arguments: dict[str, Any],
    command: str | None,
    out: TextIO,
) -> int:
    files: Sequence[str] = arguments["files"]
    interactive = not files and not arguments["commands"] and sys.stdin.isatty()
    sources = [] if command or interactive else _sources(files, arguments["commands"])
    settings = Settings(
        out=out,
        messages=messages(),
        format=Format.JSONL if arguments["as_json"] else Format(arguments["format_name"]),
        quiet=arguments["quiet"],
        echo=arguments["echo"],
        debug=arguments["debug"],
        pager=interactive,
        variables=_variables(arguments["variables"]),
        progress=Progress(sys.stderr),
        log_format=LogFormat(arguments["log_format"] or "text"),
    )
    # Those make no warehouse; tests have their own, which they write.
    only_shows = command in ("status", "serve", "dump", "plan")
    read_only = only_shows or (arguments["read_only"] and command != "test")
    connection = connect(
        arguments["warehouse"],
        master=arguments["master"],
        read_only=read_only,
        create=command != "run",
    )
    is_short = command in ("status", *_WITH_FOLDER)
    connection.is_short = is_short or bool(arguments["commands"])
    runner = Runner(connection, settings)
    try:
        if command == "warm-up":
            return _warm_up(runner, is_removal=arguments["remove"])
        if command == "doctor":
            return _doctor(runner, arguments)
        if command == "run":
            return follow(runner, _run_options(arguments))
        if command == "serve":
            return serve(runner, *_address("listen", arguments["listen"] or ADDRESS))
        if command == "status":
            return _status(runner)
        if command in _WITH_FOLDER:
            return _with_folder(connect, runner, command, arguments)
        if interactive:
            from ctsql.shell.repl import Repl

            rc_file = None if arguments["no_rc"] else user_path("~/.ctsqlrc")
            return Repl(runner).run(rc_file=rc_file)

        def terminate(number: int, _frame: FrameType | None) -> None:
            """End a subscription as Ctrl-C does, and everything else by default."""
            if not runner.stop_live():
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        with handle_signals(terminate, signal.SIGTERM):
            return _run_all(runner, sources)
    except BrokenPipeError:
        _drop_stdout()
        return BROKEN_PIPE
    finally:
        # Closing waits for running work, so not after an abandoned start or statement.
        if connection.started and not runner.abandoned:
            connection.close()


def _with_folder(
    connect: "Callable[..., Connection]", runner: Runner, command: str, arguments: dict[str, Any]
) -> int:
    """Run a command that takes a folder of SQL."""
    match command:
        case "dump":
            return _dump(runner, Path(arguments["files"][1]))
        case "test":
            return _test(runner, arguments)
        case "plan":
            return _plan(connect, runner, arguments)
        case _:
            return _apply(runner, arguments)


def _run_options(arguments: dict[str, Any]) -> RunOptions:
    """What is said of ``ctsql run``."""
    return RunOptions(
        once=arguments["once"],
        interval=arguments["interval"],
        workers=arguments["workers"],
        as_json=arguments["as_json"],
        metrics=_address("metrics", arguments["metrics"]) if arguments["metrics"] else None,
        serve=_address("serve", arguments["serve"]) if arguments["serve"] else None,
        on_event=_hook(arguments["on_event"]) if arguments["on_event"] is not None else None,
    )


def _hook(text: str) -> "Callable[[Event], object]":
    """The function of ``--on-event``."""
    try:
        return load_hook(text)
    except ValueError as problem:
        raise click.UsageError(f"--on-event takes MODULE:FUNCTION; {problem}.") from problem


def _address(option: str, text: str) -> tuple[str, int]:
    """The host and the port that an option says."""
    try:
        return parse_address(text)
    except ValueError as problem:
        raise click.UsageError(f"--{option} takes [HOST:]PORT, as 9464; {problem}.") from problem


def _variables(assignments: Sequence[str]) -> dict[str, str]:
    """The variables of ``--set``."""
    pairs = [one.partition("=") for one in assignments]
    for name, equals, _ in pairs:
        if not equals or not NAME.fullmatch(name):
            raise click.UsageError(f"--set takes NAME=VALUE, as --set day=2026-01-31; got {name}")
    return {name: value for name, _, value in pairs}


def _sources(files: Sequence[str], commands: Sequence[str]) -> list[Source]:
    r"""Read all sources before anything runs: a missing file is bad usage.

    ``\\copy`` of ``-c`` stays as it is, as it may read the standard input.
    """
    if commands:
        names = ["<command>", *(f"<command {n}>" for n in range(2, len(commands) + 1))]
        pairs = zip(commands, names, strict=True)
        return [Source(_statement_of(text), name) for text, name in pairs]
    return [_read(name) for name in files or ("-",)]


def _statement_of(text: str) -> str:
    r"""The SQL of ``-c``, where ``\d`` and its like may stand, too."""
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


def _read(name: str) -> Source:
    try:
        if name == "-":
            raw, name = sys.stdin.buffer.read(), "<stdin>"
        else:
            raw = Path(name).read_bytes()
        return Source(raw.decode("utf-8-sig"), name)
    except OSError as problem:
        suggestion = did_you_mean(name, COMMANDS)
        if not suggestion and not name.endswith(".sql"):
            suggestion = f"To open a warehouse: ctsql --warehouse {shlex.quote(name)}"
        raise click.UsageError(
            f"Cannot read {name}: {problem.strerror}. {suggestion}".rstrip()
        ) from problem
    except UnicodeDecodeError as problem:
        raise click.UsageError(f"{name} is not UTF-8 text (byte {problem.start}).") from problem


def _run_all(runner: Runner, sources: Sequence[Source]) -> int:
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
    assert command is not None  # _run_all has looked
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


def _status(runner: Runner) -> int:
    """``ctsql status``: the status of every task and view."""
    settings = runner.settings

    def work() -> None:
        result = runner.connection.status()
        settings.progress.pause()
        write_result(result, settings.format, settings.out)

    return runner.guard(work)


def _dump(runner: Runner, folder: Path) -> int:
    """``ctsql dump``: the definitions as files."""

    def work() -> None:
        from ctsql.cli.dump import write_dump

        files = write_dump(runner.connection, folder)
        runner.settings.note(f"wrote {len(files)} file(s) into {folder}")

    return runner.guard(work)


def _warm_up(runner: Runner, *, is_removal: bool) -> int:
    """``ctsql warm-up``: the archive of classes."""
    from ctsql.console import warm_up

    settings = runner.settings

    def say(text: str) -> None:
        if not settings.quiet:
            settings.note(text)

    act = warm_up.remove if is_removal else warm_up.warm_up
    return runner.guard(lambda: act(say))


def _doctor(runner: Runner, arguments: dict[str, Any]) -> int:
    """``ctsql doctor``: a line for each thing that it looks at."""
    from ctsql.cli.doctor import examine

    remedies = []

    def work() -> None:
        out = runner.settings.out
        for finding in examine(runner.connection.warehouse, arguments["master"]):
            out.write(f"{finding.name:<10} {finding.text}\n")
            if finding.remedy:
                remedies.append(finding.remedy)
                out.write(f"{'':<10} {finding.remedy}\n")

    code = runner.guard(work)
    return FAILED if code == OK and remedies else code


def _test(runner: Runner, arguments: dict[str, Any]) -> int:
    """``ctsql test``: the tests of a folder."""
    from ctsql.testing.command import choose, command

    settings, passed = runner.settings, False
    file = None if arguments["junit_file"] is None else Path(arguments["junit_file"])
    try:
        selection = choose(Path(arguments["files"][1]), arguments["part"], settings.variables)
        if file is not None:
            file.open("a").close()  # it is written when all have run, which takes a while
    except OSError as problem:
        raise click.UsageError(f"Cannot use {problem.filename}: {problem.strerror}.") from problem
    except CtsqlError as problem:
        if problem.condition == "INVALID_USAGE":
            raise click.UsageError(
                f"{problem.message}. {problem.detail or ''}".strip()
            ) from problem
        settings.fail(problem)
        return FAILED
    runner.connection.is_short = len(selection.suite.cases) <= TESTS_OF_SHORT

    def work() -> None:
        nonlocal passed
        pause = settings.progress.pause
        passed = command(
            runner.connection,
            selection,
            settings.out,
            pause=pause,
            junit_file=file,
            workers=arguments["workers"],
        )

    code = runner.guard(work)
    return FAILED if code == OK and not passed else code


def _plan(connect: "Callable[..., Connection]", runner: Runner, arguments: dict[str, Any]) -> int:
    """``ctsql plan``: what a folder would change."""
    from ctsql import pipelines
    from ctsql.cli import folder_commands

    settings = runner.settings

    def work() -> int:
        folder = pipelines.read(Path(arguments["files"][1]), settings.variables)
        plan = folder_commands.plan_command(
            connect, runner.connection, folder, prune=arguments["prune"]
        )
        if arguments["output"]:
            folder_commands.save(plan, Path(arguments["output"]))
        settings.progress.pause()
        folder_commands.write_plan(plan, settings.out, as_json=arguments["as_json"])
        return folder_commands.exit_code(plan)

    return _with_codes(runner, work)


def _apply(runner: Runner, arguments: dict[str, Any]) -> int:
    """``ctsql apply``: a folder's definitions come into force."""
    from ctsql import pipelines
    from ctsql.cli import folder_commands

    settings = runner.settings

    def work() -> int:
        folder = pipelines.read(Path(arguments["files"][1]), settings.variables)
        saved_plan = (
            folder_commands.load(Path(arguments["plan_file"])) if arguments["plan_file"] else None
        )
        plan = pipelines.apply(
            runner.connection, folder, prune=arguments["prune"], saved_plan=saved_plan
        )
        settings.progress.pause()
        if arguments["as_json"] or not settings.quiet:
            folder_commands.write_plan(plan, settings.out, as_json=arguments["as_json"])
        return OK

    return _with_codes(runner, work)


def _with_codes(runner: Runner, work: Callable[[], int]) -> int:
    """Run what gives an exit code of its own; an error that refuses a folder has one, too."""
    from ctsql.cli import folder_commands

    code = OK

    def run() -> None:
        nonlocal code
        try:
            code = work()
        except CtsqlError as problem:
            code = folder_commands.refusal_code(problem) or FAILED
            raise

    guard_code = runner.guard(run)
    return code or guard_code if guard_code in (OK, FAILED) else guard_code


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """Standard output, or the file of ``-o``, which an error leaves as it was."""
    try:
        file = None if path is None else OutputFile(path)
    except OSError as problem:
        raise click.UsageError(f"Cannot write {path}: {problem.strerror}.") from problem
    code: int | str | None = FAILED
    try:
        yield sys.stdout if file is None else file
    except click.exceptions.Exit as end:
        code = end.exit_code  # what has failed was reported
        raise
    finally:
        try:
            if file is None:
                sys.stdout.flush()
            else:
                if code == OK:
                    file.publish()
                file.close()
        except OSError as problem:  # what is left to be written finds no room
            if file is None:
                _drop_stdout()
            if code == OK:
                message = f"Cannot write {path or 'standard output'}: {problem.strerror}."
                raise click.ClickException(message) from problem


class _ClosedStream(io.TextIOBase):
    """A stream that nothing can be written to."""

    name = "<stdout>"

    def write(self, _text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _open_closed_streams() -> None:
    """Take other streams for the standard ones that whoever started the command has closed.

    There is nothing to read, and what would be said is lost; rows are not: to write some fails.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  for good
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  for good
    if sys.stdout is None:
        sys.stdout = _ClosedStream()


def _write_every_letter() -> None:
    """Write rows as UTF-8, also where the locale has another encoding.

    A terminal keeps its own, and is shown the numbers of letters that it lacks.
    """
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


def _connect() -> "Callable[..., Connection]":
    from ctsql.api import connect

    return connect


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ctsql")
    except PackageNotFoundError:
        return "(not installed)"
