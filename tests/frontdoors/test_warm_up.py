"""``ctsql warm-up``: an archive of classes is made, used, removed, and harmless if damaged."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctsql.cli.main import main

SELECT = ("-q", "--format", "csv", "-c", "SELECT 1 AS one")


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, with a cache of its own; classes that it loads go to a log."""
    log = f"-Xlog:class+load:file={folder / 'classes.log'}"
    return subprocess.run(
        [sys.executable, "-m", "ctsql", *arguments],
        env={
            **os.environ,
            "CTSQL_WAREHOUSE": str(folder / "w"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "JDK_JAVA_OPTIONS": log,
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


def test_nothing_to_remove_and_nothing_to_make(tmp_path: Path) -> None:
    """To remove none is no error; a configured Spark has another class path, so none is made."""
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "CTSQL_WAREHOUSE": str(tmp_path / "w")}
    removed = CliRunner().invoke(main, ["warm-up", "--remove"], env=environ)
    assert removed.exit_code == 0
    assert f"there is no archive in {tmp_path / 'cache' / 'ctsql' / 'classes'}" in removed.stderr
    environ["SPARK_CONF_DIR"] = str(tmp_path)
    refused = CliRunner().invoke(main, ["warm-up"], env=environ)
    assert refused.exit_code == 1
    assert "needs a Spark without its own configuration" in refused.stderr
    assert list(tmp_path.iterdir()) == []
