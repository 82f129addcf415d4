"""The command line with an archive of classes: made once, used, and harmless when damaged."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ctsql.runtime.spark.class_archive import archive_of, draft_of, refusal_of
from ctsql.runtime.spark.environment import check_java
from ctsql.runtime.spark.jvm_options import class_path
from ctsql.runtime.spark.plain_start import spark_home

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _run(folder: Path, *arguments: str) -> str:
    """What a command prints, with a cache of its own; classes that it loads go to a log."""
    log = f"-Xlog:class+load:file={folder / 'classes.log'}"
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env={
            **os.environ,
            "CTSQL_CLASS_ARCHIVE": "on",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "JDK_JAVA_OPTIONS": log,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _from_archive(folder: Path) -> int:
    """How many of Spark's and Delta's classes the last command took from the archive."""
    text = (folder / "classes.log").read_text()
    found = re.findall(r"org\.apache\.spark\.\S+ source: shared objects file \(top\)", text)
    return len(found)


def test_made_used_and_damaged(tmp_path: Path) -> None:
    """A half of one, or another file in its place, is as good as none."""
    select = ("ctsql", "-w", str(tmp_path / "w"), "--format", "csv", "-c", "SELECT 1 AS one")
    expected = "one\n1\n"
    cache = tmp_path / "cache" / "ctsql" / "classes"
    cache.mkdir(parents=True)
    archive = archive_of(check_java(), class_path(spark_home()), cache)
    _run(tmp_path, "ctsql.class_training", str(archive))
    assert archive.is_file()
    assert not draft_of(archive).exists()
    assert not refusal_of(archive).exists()

    assert _run(tmp_path, *select) == expected
    assert _from_archive(tmp_path) > 1000
    whole = archive.read_bytes()
    archive.unlink()
    refusal_of(archive).touch()  # no other is made meanwhile
    for damaged in (whole[: len(whole) // 2], b"no archive", b""):
        archive.write_bytes(damaged)
        assert _run(tmp_path, *select) == expected
        assert _from_archive(tmp_path) == 0
        archive.unlink()
