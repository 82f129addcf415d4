"""``ctsql test FOLDER``: runs the tests and writes their outcomes."""

import os
import queue
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ctsql.api import Connection, connect
from ctsql.catalog.errors import misuse
from ctsql.console.folder import sql_files
from ctsql.planner.folder import Folder, read_folder
from ctsql.planner.syntax import ast as st
from ctsql.testing.reporting import junit, outcome_lines, summary
from ctsql.testing.running import Case, Outcome, run_case
from ctsql.testing.warehouses import Warehouses

WORKERS_MAX = 4  # more workers share one driver and gain little
TESTS_OF_WORKER = 10  # the least number of tests for each worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests to run, and the definitions of their folder."""

    folder: Folder
    cases: tuple[Case, ...]  # in order of text
    left_out: int = 0  # the number of the other tests


def choose(folder: Path, part: str | None, variables: Mapping[str, str]) -> Suite:
    """The tests with a text in their names, in any case, or all.

    Raises INVALID_USAGE: no folder or no test. And as :func:`~ctsql.planner.folder.read_folder`.
    """
    contents = read_folder(sql_files(folder, variables), also=(st.Test,))
    cases = [
        Case(o.statement, o.schema) for o in contents.others if isinstance(o.statement, st.Test)
    ]
    text = (part or "").casefold()
    chosen = tuple(case for case in cases if text in case.test.name.casefold())
    if not chosen:
        condition = f" that has {part} in its name" if part else ""
        others = f"There are {len(cases)} others." if cases else ""
        raise misuse(f"there is no test in {folder}{condition}", others)
    return Suite(folder=contents, cases=chosen, left_out=len(cases) - len(chosen))


def workers_for(cases: int) -> int:
    """The number of parallel workers; each must first make plans that the others have made."""
    return max(1, min(os.cpu_count() or 1, WORKERS_MAX, cases // TESTS_OF_WORKER))


def run_tests(
    connection: Connection,
    suite: Suite,
    report: Callable[[Outcome], None],
    *,
    workers: int | None = None,
) -> list[Outcome]:
    """Run tests in temporary warehouses; the outcomes in the order of the tests.

    Args:
        report: called with each outcome in that order, one at a time.
        workers: the number of parallel tests, at least one; None: chosen by the machine.

    Raises:
        STATEMENT_CANCELLED
    """
    cases, folder = suite.cases, suite.folder
    count = workers_for(len(cases)) if workers is None else min(workers, len(cases))
    outcomes = list[Outcome]()
    with (
        tempfile.TemporaryDirectory(prefix="ctsql-test-", ignore_cleanup_errors=True) as root,
        ExitStack() as stack,
    ):
        stack.callback(connection.close)  # before its warehouse is deleted
        # Spark and the operating system may spell the path differently; logs have this one.
        warehouses = Warehouses(connection, folder, Path(root).resolve())
        others = [
            stack.enter_context(connect(f"{root}/none{n}", spark=connection.spark))
            for n in range(1, count)
        ]
        for outcome in outcomes_of(cases, [warehouses, *map(warehouses.with_connection, others)]):
            report(outcome)
            outcomes.append(outcome)
    return outcomes


def outcomes_of(cases: Sequence[Case], workers: Sequence[Warehouses]) -> Iterator[Outcome]:
    """The outcomes of tests, in order; each worker runs one at a time.

    After an error no test begins, and running ones are cancelled.
    """
    idle = queue.SimpleQueue[Warehouses]()
    for worker in workers:
        idle.put(worker)

    def run(case: Case) -> Outcome:
        mine = idle.get()
        try:
            return run_case(case, mine.folder, mine)
        finally:
            idle.put(mine)

    with ThreadPoolExecutor(len(workers), thread_name_prefix="ctsql-test") as pool:
        try:
            yield from pool.map(run, cases)
        except BaseException:
            for worker in workers:
                worker.connection.cancel()
            raise


def run_and_report(
    connection: Connection,
    suite: Suite,
    out: TextIO,
    *,
    pause: Callable[[], None],
    junit_file: Path | None = None,
    workers: int | None = None,
) -> bool:
    """Run tests, write their outcomes; whether all passed. ``pause``: called before output."""
    start = time.monotonic()
    has_styles = out.isatty()

    def report(outcome: Outcome) -> None:
        pause()
        for line in outcome_lines(outcome, has_styles=has_styles):
            out.write(f"{line}\n")
        out.flush()

    outcomes = run_tests(connection, suite, report, workers=workers)
    seconds = time.monotonic() - start
    if junit_file is not None:
        junit_file.write_text(junit(outcomes, seconds), encoding="utf-8")
    out.write(f"{summary(outcomes, seconds, left_out=suite.left_out)}\n")
    return all(o.passed for o in outcomes)
