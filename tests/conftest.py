"""Fixtures for every test.

Two lanes: tests marked ``spark`` need a JVM and run in one process with one session; all others
must not start one. The folders in ``ON_SPARK`` mark each of their tests. A test of the first lane
that starts Spark by mistake fails there.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from ctsql.runtime.spark.versions import at_least

if TYPE_CHECKING:
    from ctsql.api import Connection

TEST_MASTER = "local[2]"
ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
ON_SPARK = {"crash", "properties", "spark"}
VECTORS = TESTS / "vectors"
"""Cases as JSON, given from outside: read here, never changed."""

# Delta takes 50 tasks to know a table's state unless told otherwise, and its VACUUM 10,000 to list
# a folder; a table here has a few rows.
JVM = (
    "-XX:+UseSerialGC -Dspark.databricks.delta.snapshotPartitions=2"
    " -Dspark.sql.sources.parallelPartitionDiscovery.parallelism=2"
)
# On few cores the optimising compiler takes most of a short life: without it the same statements
# took 32 seconds of CPU, not 55.
SHORT_LIVED_JVM = f"{JVM} -XX:TieredStopAtLevel=1"

# A job that a shell runs in the background ignores SIGINT, and so does what it starts; tests send
# it to processes of theirs, which must be as a person's are.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Before 4.2 PySpark leaves the socket of a result for Python to close."""
    if not at_least(4, 2):
        for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
            config.addinivalue_line("filterwarnings", f"ignore:.*socket.socket fd=:{warning}")


# How long an example takes says something of the machine, not of what is tested.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The first test of Spark starts the JVM that all share; later ones are of other processes."""
    if item.get_closest_marker("spark") is not None:
        from pyspark import SparkContext

        started = SparkContext._gateway is not None
        os.environ["JDK_JAVA_OPTIONS"] = SHORT_LIVED_JVM if started else JVM


def pytest_itemcollected(item: pytest.Item) -> None:
    """What opens a connection needs the mark, also where another test has started Spark before."""
    if item.path.relative_to(TESTS).parts[0] in ON_SPARK:
        item.add_marker("spark")
    opens = {"con", "connect", "shared"} & set(getattr(item, "fixturenames", ()))
    if opens and item.get_closest_marker("spark") is None:
        raise pytest.UsageError(f"{item.nodeid} uses {min(opens)} and is not marked spark")


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the source tree."""
    return ROOT


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A folder of its own for a test's warehouse; it does not exist yet."""
    return tmp_path / "warehouse"


@pytest.fixture(autouse=True)
def _no_jvm_unless_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test without the ``spark`` mark cannot start a JVM."""
    if request.node.get_closest_marker("spark") is None:
        # Read by PySpark's launch_gateway through its environment: the script is not there.
        monkeypatch.setenv("SPARK_HOME", "/no-spark-in-tests-that-are-not-marked-spark")


@pytest.fixture(autouse=True)
def _no_wrong_change_is_hidden(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A view's change that takes away rows that are not stored fails the test.

    The view is recomputed then (``ROWS_DIFFER``), so its rows are right and the mistake is hidden.
    """
    if request.node.get_closest_marker("spark") is None:
        yield
        return
    from ctsql.catalog.errors import Declined
    from ctsql.runtime.delta.diff_writer import ROWS_DIFFER
    from ctsql.runtime.views import view_diff

    stage = view_diff.stage_signed
    wrong: list[object] = []

    def staged(*given: object) -> Declined | None:
        done = stage(*given)  # type: ignore[arg-type]
        if done is ROWS_DIFFER:
            wrong.append(given[3])
        return done

    monkeypatch.setattr(view_diff, "stage_signed", staged)
    yield
    assert not wrong, f"views with these columns were followed wrongly: {wrong}"


# --- connections: the fixtures that start Spark stand below this line -----------------------------


@pytest.fixture(scope="session")
def new_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse without objects. To make one takes a second, to copy it nothing."""
    from ctsql.api import connect as open_connection

    folder = tmp_path_factory.mktemp("new") / "warehouse"
    with open_connection(str(folder), master=TEST_MASTER) as con:
        con.start()
    return folder


@pytest.fixture
def connect(warehouse: Path, new_warehouse: Path) -> Iterator[Callable[[], "Connection"]]:
    """Opens connections on the test's warehouse, all on the process's one session."""
    from ctsql.api import connect as open_connection

    opened: list[Connection] = []

    def open_one() -> "Connection":
        if not warehouse.exists():
            shutil.copytree(new_warehouse, warehouse)
        opened.append(open_connection(str(warehouse), master=TEST_MASTER))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def con(connect: Callable[[], "Connection"]) -> "Connection":
    """One connection on a warehouse of the test's own."""
    return connect()
