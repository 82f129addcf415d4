"""A program that connects, writes, reads and ends leaves its warehouse, and nothing else."""

import json
import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
]

PROGRAM = """
import json, os, sys, threading, traceback
import ctsql

ctsql.execute("CREATE TABLE feed (k INT, v INT)")
ctsql.execute('''CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k)''')
ctsql.execute("CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n FROM latest GROUP BY k")
for n in range(5):
    ctsql.execute(f"INSERT INTO feed VALUES ({n % 3}, {n})")
    ctsql.execute("SELECT * FROM counts").fetchall()
assert ctsql.execute("SELECT sum(v) FROM latest").scalar() == 9
ctsql.api._default.spark.udf.register("twice", lambda n: 2 * n, "int")
assert ctsql.execute("SELECT twice(2)").scalar() == 4
assert "PYSPARK_PYTHON" not in os.environ  # which other programs would take as well
own = [
    "".join(traceback.format_stack(frame))
    for thread, frame in sys._current_frames().items()
    if thread != threading.get_ident()
]
jvm = ctsql.api._default.spark._jvm
hadoop = ctsql.api._default.spark.sparkContext._jsc.hadoopConfiguration()
files = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), hadoop)
print(json.dumps({
    "threads": [stack for stack in own if "/ctsql/" in stack or "/runtime/" in stack],
    "file system": files.getClass().getName(),
}))
"""
PROPERTIES = {
    "delta.checkpointInterval",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableExpiredLogCleanup",
    "delta.enableInCommitTimestamps",
    "ctsql.format",
}
"""Public properties of Delta's, and the catalog's number of its own format."""
INTERVALS = range(90, 140)
SECONDS_MAX = 60
_LOADED = re.compile(r"\[class,load\] (\S+)")


def _processes(mark: str) -> list[str]:
    """The command lines of processes with a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it has just ended, or is another user's
    return found


def _metadata(table: Path) -> dict[str, Any]:
    lines = (table / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    (metadata,) = [json.loads(line)["metaData"] for line in lines if '"metaData"' in line]
    return dict(metadata["configuration"])


def test_a_program_leaves_its_warehouse_only(tmp_path: Path, root: Path) -> None:
    """No process, no thread, no file elsewhere, no unusual property, and no class of ctsql's."""
    home, work, temporary = tmp_path / "home", tmp_path / "work", tmp_path / "tmp"
    programs = tmp_path / "bin"
    for folder in (home, work, temporary, programs):
        folder.mkdir()
    (programs / "python3").symlink_to("/bin/false")  # another Python than the one of this program
    (home / ".ivy2.5.2").symlink_to(Path.home() / ".ivy2.5.2")  # JARs, which Spark's Ivy fetches
    mark, classes = uuid.uuid4().hex, tmp_path / "classes.log"
    environ = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("CTSQL", "XDG", "PYSPARK"))},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PYTHONPATH": str(root),
        "CTSQL_TEST_MARK": mark,
        "JDK_JAVA_OPTIONS": f"-Xlog:class+load:file={classes} -XX:TieredStopAtLevel=1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environ,
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    until = time.monotonic() + SECONDS_MAX
    while (running := _processes(mark)) and time.monotonic() < until:
        time.sleep(0.1)  # the JVM ends when it notices that the program has
    assert running == []
    told = json.loads(ended.stdout)
    assert told["threads"] == []
    assert told["file system"].startswith("org.apache.hadoop.")
    assert [path.name for path in home.iterdir()] == [".ivy2.5.2"]
    assert [path.name for path in work.iterdir()] == ["warehouse"]
    loaded = [n for log in tmp_path.glob("classes.log*") for n in _LOADED.findall(log.read_text())]
    assert any(name.startswith("org.apache.spark.") for name in loaded)
    assert [name for name in loaded if name.startswith("ctsql")] == []
    tables = [path.parent for path in (work / "warehouse").rglob("_delta_log")]
    assert len(tables) >= 5
    for table in tables:
        configuration = _metadata(table)
        assert set(configuration) <= PROPERTIES, table
        assert int(configuration["delta.checkpointInterval"]) in INTERVALS
        is_input = table.name.startswith("feed-")  # which a commit changes when it is followed
        keeps_log = None if is_input else "false"
        assert configuration.get("delta.enableExpiredLogCleanup") == keeps_log
