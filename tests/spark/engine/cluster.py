"""A standalone Spark cluster of a test's own: a master and two workers, by PySpark's classes."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

WORKERS = 2
START_SECONDS_MAX = 90


def spark_home() -> Path:
    """The folder of PySpark's own distribution."""
    import pyspark

    return Path(pyspark.__file__).parent


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Cluster:
    """Started when made; ``with`` ends every process of it.

    Attributes:
        master: its URL, for ``--master``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        port = _free_port()
        self.master = f"spark://127.0.0.1:{port}"
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        try:
            self._start("master", "master.Master", [*place, "--port", str(port)])
            self._wait("master", "Started daemon|I have been elected leader")
            for number in range(WORKERS):
                work = str(folder / f"work{number}")
                given = [*place, "--cores", "1", "--memory", "1g", "--work-dir", work]
                self._start(f"worker{number}", "worker.Worker", [*given, self.master])
            for number in range(WORKERS):
                self._wait(f"worker{number}", "Successfully registered with master")
        except BaseException:
            self.stop()
            raise

    def _start(self, name: str, daemon: str, arguments: list[str]) -> None:
        program = spark_home() / "bin" / "spark-class"
        environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m"}
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(program), f"org.apache.spark.deploy.{daemon}", *arguments],
                    stdout=log,
                    stderr=log,
                    env=environment,
                )
            )

    def _wait(self, name: str, sign: str) -> None:
        log = self.folder / f"{name}.log"
        until = time.monotonic() + START_SECONDS_MAX
        while not re.search(sign, log.read_text(errors="replace")):
            assert time.monotonic() < until, log.read_text(errors="replace")
            time.sleep(0.1)

    def executors_seen(self) -> int:
        """On how many workers executors ran."""
        return sum(any((self.folder / f"work{n}").glob("app-*")) for n in range(WORKERS))

    def stop(self) -> None:
        """End every process of it."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(timeout=30)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
