"""Fixtures for every test.

Two lanes: tests marked ``spark`` need a JVM and run in one process with one session; all others
must not start one. A test of the first lane that starts Spark by mistake fails there.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ctsql.api import Connection

TEST_MASTER = "local[2]"
ROOT = Path(__file__).resolve().parent.parent

# Short-lived JVMs on few cores spend most of their time in the optimising compiler: without it
# the same statements took 32 seconds of CPU, not 55. The room for compiled code is then 48 MB, of
# which a long run throws away what it soon compiles again. Processes that tests start inherit it.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
)

# A job that a shell runs in the background ignores SIGINT, and so does what it starts; tests send
# it to processes of theirs, which must be as a person's are.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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


# --- connections: the fixtures that start Spark stand below this line -----------------------------


@pytest.fixture
def connect(warehouse: Path) -> Iterator[Callable[[], "Connection"]]:
    """Opens connections on the test's warehouse, all on the process's one session."""
    from ctsql.api import connect as open_connection

    opened: list[Connection] = []

    def open_one() -> "Connection":
        opened.append(open_connection(str(warehouse), master=TEST_MASTER))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def con(connect: Callable[[], "Connection"]) -> "Connection":
    """One connection on a warehouse of the test's own."""
    return connect()
