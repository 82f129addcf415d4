"""The commands that do one thing and end; each imports what it needs when it runs."""

from pathlib import Path
from typing import Any

import click

from ctsql.catalog.errors import CatalogError, CtsqlError, Error, NotSupported, StatementError
from ctsql.cli import options
from ctsql.cli.performing import connect, guarded, perform
from ctsql.console.script import FAILED, OK, Runner
from ctsql.rendering.show import Format, write_result

BAD_USAGE = 2
TESTS_OF_SHORT = 10
"""Up to this many tests end before Java's second compiler pays (docs/decisions/0076)."""


@click.command()
@options.common()
@options.as_json("One JSON object a line.")
@options.output
def status(as_json: bool, **given: Any) -> None:
    """List every task and view with its state and its lag."""

    def show(runner: Runner) -> None:
        result = runner.connection.status()
        runner.settings.progress.pause()
        write_result(result, runner.settings.format, runner.settings.out)

    shown_as = Format.JSONL if as_json else Format.TABLE
    perform(guarded(show), read_only=True, is_short=True, format=shown_as, **given)


@click.command()
@options.folder
@options.common()
def dump(folder: str, **given: Any) -> None:
    """Write the definitions of a warehouse into a folder.

    Each object gets a file of SQL. The files are numbered in the order in which they run: ctsql -w
    OTHER FOLDER/*.sql creates the same objects in another warehouse. Rows are not written.
    """

    def write(runner: Runner) -> None:
        from ctsql.cli.folder_commands import write_dump

        files = write_dump(runner.connection, Path(folder))
        runner.settings.note(f"wrote {len(files)} file(s) into {folder}")

    perform(guarded(write), read_only=True, is_short=True, **given)


@click.command("warm-up")
@click.option("--remove", is_flag=True, help="Delete all archives, and create none.")
@options.common(has_warehouse=False)
def warm_up(remove: bool, **given: Any) -> None:
    """Make later starts of Spark faster.

    Creates an archive of Spark's Java classes in the cache folder, about 150 MB. Prints its path,
    and how long a command takes with and without it. Run it again after an update of Java, Spark or
    Delta: an archive of another version is not used.
    """

    def make_or_remove(runner: Runner) -> None:
        from ctsql.console import warm_up

        act = warm_up.remove if remove else warm_up.warm_up
        act(lambda text: None if runner.settings.quiet else runner.settings.note(text))

    perform(guarded(make_or_remove), **given)


@click.command()
@options.common()
def doctor(**given: Any) -> None:
    """Check Python, Java, Spark, Delta and the disk.

    Checks what ctsql needs on this machine and the warehouse's disk, and runs some statements in a
    temporary warehouse. Exit status: 0 no problem, 1 problems; each is printed with its remedy.
    """

    def look(runner: Runner) -> int:
        from ctsql.cli.doctor import examine

        code, out = OK, runner.settings.out
        for finding in examine(given["warehouse"], given["master"]):
            out.write(f"{finding.name:<10} {finding.text}\n")
            if finding.remedy:
                code = FAILED
                out.write(f"{'':<10} {finding.remedy}\n")
        return code

    perform(guarded(look), **given)


@click.command()
@options.folder
@click.option(
    "-k", "part", type=options.TEXT, metavar="TEXT", help="Only tests with TEXT in their names."
)
@options.count("--workers", "How many tests run in parallel; by default several if there are many.")
@options.file("--junit", "junit_file", what="Also write the results as JUnit XML, for CI systems.")
@options.variables
@options.common(has_warehouse=False)
def test(
    folder: str, part: str | None, workers: int | None, junit_file: str | None, **given: Any
) -> None:
    """Run the TEST statements in the .sql files of a folder.

    Each runs in a throw-away warehouse with the objects of the folder that it reads. Nothing else
    is read or written. Exit status: 0 all passed, 1 one failed, 2 bad usage, or no test.
    """
    options.check_file(junit_file, given["warehouse"])

    def run(runner: Runner) -> int:
        from ctsql.testing.command import choose, run_and_report

        settings = runner.settings
        suite = choose(Path(folder), part, settings.variables)
        runner.connection.is_short = len(suite.cases) <= TESTS_OF_SHORT
        passed = run_and_report(
            runner.connection,
            suite,
            settings.out,
            pause=settings.progress.pause,
            junit_file=None if junit_file is None else Path(junit_file),
            workers=workers,
        )
        return OK if passed else FAILED

    perform(guarded(run, _code_of_test), **given)


def _code_of_test(problem: Error) -> int:
    is_usage = isinstance(problem, CtsqlError) and problem.condition == "INVALID_USAGE"
    return BAD_USAGE if is_usage else FAILED


@click.command()
@options.folder
@options.prune
@options.as_json("The plan as one JSON object.")
@options.file(
    "-o", "--output", "plan_file", what="Also write the plan to this file, for apply --plan."
)
@options.variables
@options.common()
def plan(folder: str, prune: bool, as_json: bool, plan_file: str | None, **given: Any) -> None:
    """Show what the definitions in a folder of .sql files would change.

    Writes nothing but the file of -o. Exit status: 0 nothing to do, 2 changes, 4 refused, 1 the
    plan could not be made.
    """
    options.check_file(plan_file, given["warehouse"])
    opening = connect()  # here, because the work runs in another thread

    def show(runner: Runner) -> int:
        from ctsql import pipelines
        from ctsql.cli import folder_commands

        settings = runner.settings
        definitions = pipelines.read(Path(folder), settings.variables)
        found = folder_commands.plan_or_all_new(
            opening, runner.connection, definitions, prune=prune
        )
        if plan_file is not None:
            folder_commands.save(found, Path(plan_file))
        settings.progress.pause()
        folder_commands.write_plan(found, settings.out, as_json=as_json)
        return folder_commands.exit_code(found)

    perform(guarded(show, _code_of), read_only=True, is_short=True, **given)


@click.command()
@options.folder
@options.prune
@options.file(
    "--plan", "plan_file", what="Apply only what this plan, written by plan -o, contains."
)
@options.as_json("What was done as one JSON object.")
@options.variables
@options.common()
def apply(folder: str, prune: bool, plan_file: str | None, as_json: bool, **given: Any) -> None:
    """Change the warehouse's definitions to those of a folder: all at one T, or none.

    Exit status: 0 done or nothing to do, 4 refused, 1 something failed.
    """

    def change(runner: Runner) -> None:
        from ctsql import pipelines
        from ctsql.cli import folder_commands

        settings = runner.settings
        definitions = pipelines.read(Path(folder), settings.variables)
        saved_plan = None if plan_file is None else folder_commands.load(Path(plan_file))
        done = pipelines.apply(runner.connection, definitions, prune=prune, saved_plan=saved_plan)
        settings.progress.pause()
        if as_json or not settings.quiet:
            folder_commands.write_plan(done, settings.out, as_json=as_json)

    perform(guarded(change, _code_of), is_short=True, **given)


def _code_of(problem: Error) -> int:
    from ctsql.cli.folder_commands import REFUSED

    is_refusal = isinstance(problem, StatementError | CatalogError | NotSupported)
    return REFUSED if is_refusal else FAILED
