"""``ctsql warm-up``: an archive of classes is made, used, removed, and harmless if damaged."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SELECT = ("-q", "--format", "csv", "-c", "SELECT 1 AS one")


def _run(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command, with a cache of its own; classes that it loads go to a log."""
    log = f"-Xlog:class+load:file={folder / 'classes.log'}"
    return subprocess.run(
        [sys.executable, "-m", "ctsql", *arguments],
        env={
            **os.environ,
            "CTSQL_WAREHOUSE": str(folder / "w"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "JDK_JAVA_OPTIONS": log,
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def _from_archive(folder: Path) -> int:
    """How many of Spark's and Delta's classes the last command took from the archive."""
    text = (folder / "classes.log").read_text()
    found = re.findall(r"org\.apache\.spark\.\S+ source: shared objects file \(top\)", text)
    return len(found)


@pytest.mark.spark
@pytest.mark.slow
def test_made_used_damaged_and_removed(tmp_path: Path) -> None:
    """A half of one, or another file in its place, is as good as none."""
    assert _run(tmp_path, *SELECT).stdout == "one\n1\n"
    cache = tmp_path / "cache" / "ctsql" / "classes"
    assert not cache.exists(), "nothing is made that nobody asked for"
    made = _run(tmp_path, "warm-up")
    assert made.returncode == 0, made.stderr
    (archive,) = cache.iterdir()
    size = archive.stat().st_size
    assert f"made {archive} ({size // 1_000_000} MB)" in made.stderr
    assert re.search(r"took \d+\.\d s without it, and takes \d+\.\d s with it", made.stderr)

    assert _run(tmp_path, *SELECT).stdout == "one\n1\n"
    assert _from_archive(tmp_path) > 1000
    whole = archive.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no archive", b""):
        archive.write_bytes(damaged)
        assert _run(tmp_path, *SELECT).stdout == "one\n1\n"
        assert _from_archive(tmp_path) == 0
    archive.write_bytes(b"x" * size)
    assert _run(tmp_path, *SELECT).stdout == "one\n1\n"
    removed = _run(tmp_path, "warm-up", "--remove")
    assert f"deleted {cache} ({size // 1_000_000} MB)" in removed.stderr
    assert not cache.exists()


def test_nothing_to_remove(tmp_path: Path) -> None:
    """It is no error."""
    removed = _run(tmp_path, "warm-up", "--remove")
    assert removed.returncode == 0
    assert f"there is no archive in {tmp_path / 'cache' / 'ctsql' / 'classes'}" in removed.stderr
    assert not (tmp_path / "w").exists()


def test_no_archive_for_a_configured_spark(tmp_path: Path) -> None:
    """The class path is another one, so none is made; the error says why."""
    refused = _run(tmp_path, "warm-up", SPARK_CONF_DIR=str(tmp_path))
    assert refused.returncode == 1
    assert "needs a Spark without its own configuration" in refused.stderr
    assert not (tmp_path / "cache").exists()


def test_remove_goes_with_warm_up(tmp_path: Path) -> None:
    """Elsewhere it is bad usage."""
    refused = _run(tmp_path, "status", "--remove")
    assert refused.returncode == 2
    assert "--remove goes with: ctsql warm-up" in refused.stderr
