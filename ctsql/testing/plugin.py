"""Pytest's plugin: the TEST statements of .sql files are test items.

``pytest -p ctsql.testing FOLDER`` collects them. The objects come from the folder of the file and
the folders in it; the setting ``ctsql_folder`` of pytest's configuration names another folder for
all files. Nothing but pytest is imported until a file with a TEST is found.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ctsql.catalog.spans import Source
    from ctsql.testing.collecting import Case, Suite
    from ctsql.testing.running import Outcome
    from ctsql.testing.warehouses import Warehouses

_TEST = re.compile(
    r"(?:^|;|\*/)[ \t]*TEST(?:\s|--[^\n]*\n|/\*.*?\*/)*['\"]", re.I | re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class _Texts:
    """The files of a folder, and perhaps a file elsewhere with tests of their objects."""

    folder: Path
    test_file: Path | None = None


@dataclass
class _Run:
    """The shared state of one run of pytest: suites by :class:`_Texts`, and Spark."""

    folders: dict[Path, "list[Source]"] = field(default_factory=dict)
    suites: dict[_Texts, "Suite"] = field(default_factory=dict)
    warehouses: dict[_Texts, "Warehouses"] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def texts(self, folder: Path, file: Path) -> _Texts:
        """The files from which a file's tests get their objects."""
        from ctsql.console.folder import sql_files

        if folder not in self.folders:
            self.folders[folder] = sql_files(folder)
        is_inside = any(Path(source.name).resolve() == file for source in self.folders[folder])
        return _Texts(folder, None if is_inside else file)

    def suite(self, texts: _Texts) -> "Suite":
        """The tests and definitions of some files."""
        from ctsql.console.folder import sql_file
        from ctsql.testing.collecting import collect

        if texts not in self.suites:
            test_file = [] if texts.test_file is None else [sql_file(texts.test_file)]
            self.suites[texts] = collect([*self.folders[texts.folder], *test_file])
        return self.suites[texts]

    def run(self, case: "Case", texts: _Texts) -> "Outcome":
        """Run a test."""
        from ctsql.api import connect
        from ctsql.testing.running import run_case
        from ctsql.testing.warehouses import Warehouses

        suite = self.suite(texts)
        if texts not in self.warehouses:
            folder = tempfile.TemporaryDirectory(prefix="ctsql-test-", ignore_cleanup_errors=True)
            root = Path(self.stack.enter_context(folder)).resolve()
            connection = self.stack.enter_context(connect(str(root / "none")))
            self.warehouses[texts] = Warehouses(connection, suite.folder, root)
        return run_case(case, suite.folder, self.warehouses[texts])


_RUN = pytest.StashKey[_Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting."""
    parser.addini(
        "ctsql_folder", "the folder of .sql files that TEST statements are about", default=""
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin a run."""
    config.stash[_RUN] = _Run()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the warehouses of the tests."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.stack.close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "SqlFile | None":
    """Collect a .sql file that contains a TEST."""
    if file_path.suffix != ".sql":
        return None
    if not _TEST.search(file_path.read_text(encoding="utf-8-sig", errors="replace")):
        return None
    sql_file: SqlFile = SqlFile.from_parent(parent, path=file_path)
    return sql_file


class SqlFile(pytest.File):
    """A file with TEST statements."""

    @property
    def folder(self) -> Path:
        """The folder with its objects."""
        setting: str = self.config.getini("ctsql_folder")
        return (self.config.rootpath / setting).resolve() if setting else self.path.parent.resolve()

    def collect(self) -> "Iterator[SqlTest]":
        """Return the tests of the file."""
        run, path = self.config.stash[_RUN], self.path.resolve()
        for case in run.suite(run.texts(self.folder, path)).cases:
            if Path(case.span.source.name).resolve() == path:
                yield SqlTest.from_parent(self, name=case.name, case=case)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show an error in the files as the command line does."""
        from ctsql.catalog.errors import CtsqlError
        from ctsql.rendering.errortext import error_text

        if isinstance(excinfo.value, CtsqlError):
            return error_text(excinfo.value).plain
        return super().repr_failure(excinfo)


class _TestFailed(Exception):
    """A test did not pass; its outcome has the reasons."""

    def __init__(self, outcome: "Outcome") -> None:
        super().__init__(outcome.failures[0].message)
        self.outcome = outcome


class SqlTest(pytest.Item):
    """One TEST statement."""

    def __init__(self, *, case: "Case", **arguments: Any) -> None:
        super().__init__(**arguments)
        self.case = case

    def runtest(self) -> None:
        """Run the test."""
        assert isinstance(self.parent, SqlFile)  # which made it
        run = self.config.stash[_RUN]
        outcome = run.run(self.case, run.texts(self.parent.folder, self.path.resolve()))
        if not outcome.passed:
            raise _TestFailed(outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what failed as ``ctsql test`` does."""
        from ctsql.testing.reporting import failure_lines

        if isinstance(excinfo.value, _TestFailed):
            failures = excinfo.value.outcome.failures
            return "\n".join(line for f in failures for line in failure_lines(f))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place of the test."""
        return self.path, self.case.span.line - 1, self.name
