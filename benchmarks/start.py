"""The time of a command in a new process, against a plain PySpark script.

    python -m benchmarks.start --rounds 5

Contestants, in turns on the same table of one row:

  pyspark   a script with Delta's own way to get its JARs (configure_spark_with_delta_pip)
  bare      ctsql -c SELECT without the archive of classes
  -c        ctsql -c SELECT
  script    the same SELECT on standard input, whose JVM has both compilers
  status    ctsql status

Seconds are until the process ends; CPU seconds are those of the process and of its JVM, until both
have ended. On a busy machine compare CPU seconds. The archive is created first, in a temporary
cache, and its CPU seconds are printed. Linux only.
"""

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

SET_CHILD_SUBREAPER = 36  # prctl: the JVM outlives its Python, and its CPU time must reach us
PLAIN = """
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[*]").config(
    "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
).config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = configure_spark_with_delta_pip(builder).getOrCreate()
print(spark.read.format("delta").load({table!r}).collect())
"""
SELECT = "SELECT * FROM t;"


@dataclass
class Contestant:
    """A command and the costs of its runs."""

    name: str
    command: list[str]
    environ: dict[str, str] = field(default_factory=dict)
    text: str = ""
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Run it once, and wait for all processes that it started."""
        before = _cpu_seconds()
        start = time.perf_counter()
        subprocess.run(
            self.command,
            input=self.text.encode(),
            env={**os.environ, **self.environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        self.seconds.append(time.perf_counter() - start)
        _wait_for_orphans()
        self.cpu_seconds.append(_cpu_seconds() - before)

    def line(self) -> str:
        """A line of the table."""
        return (
            f"  {self.name:<34}{statistics.median(self.seconds):>9.1f} s{min(self.seconds):>9.1f} s"
            f"{statistics.median(self.cpu_seconds):>12.1f} s"
        )


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_orphans() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _prepare(folder: str, cache: dict[str, str]) -> str:
    """Create the table and the archive of classes; returns the table's folder."""
    ours = [sys.executable, "-m", "ctsql", "-w", f"{folder}/warehouse", "-c"]
    table = "CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 2)"
    Contestant("the table", [*ours, table], cache).run()
    archive = Contestant("the archive", [sys.executable, "-m", "ctsql", "warm-up"], cache)
    archive.run()
    print(f"ctsql warm-up: {archive.seconds[0]:.1f} s, {archive.cpu_seconds[0]:.1f} CPU s")
    log = next(Path(folder, "warehouse").glob("[!_]*/**/_delta_log"))
    return str(log.parent)


def main() -> None:
    """Run the contestants in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        cache = {"XDG_CACHE_HOME": f"{folder}/cache"}
        table = _prepare(folder, cache)
        ours = [sys.executable, "-m", "ctsql", "-w", f"{folder}/warehouse"]
        off = {"XDG_CACHE_HOME": f"{folder}/none"}
        contestants = [
            Contestant("pyspark", [sys.executable, "-c", PLAIN.format(table=table)]),
            Contestant("ctsql -c, without the archive", [*ours, "-c", SELECT], off),
            Contestant("ctsql -c", [*ours, "-c", SELECT], cache),
            Contestant("ctsql, a script", ours, cache, SELECT),
            Contestant("ctsql status", [*ours, "status"], cache),
        ]
        for _ in range(rounds):
            for contestant in contestants:
                contestant.run()
    print(f"\nA command in a new process, {rounds} rounds")
    print(f"  {'':<34}{'median':>11}{'fastest':>11}{'CPU median':>14}")
    for contestant in contestants:
        print(contestant.line())


if __name__ == "__main__":
    main()
