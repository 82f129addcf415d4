"""``ctsql doctor``: one line for each thing, and what to do where something is wrong."""

import errno
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from ctsql.cli import doctor
from ctsql.cli.main import main
from ctsql.runtime.spark.start.environment import installed_versions
from tests.conftest import TEST_MASTER

ROWS = pa.table({"k": [1]})

NAMES = ["Python", "Java", "Spark", "Delta", "JARs", "warehouse", "archive", "self-test"]


def _lines(output: str) -> dict[str, str]:
    """By name, with what to do about it."""
    lines: dict[str, str] = {}
    for line in output.splitlines():
        name, text = line[:10].strip(), line[11:]
        lines[name or list(lines)[-1]] = lines.get(name or list(lines)[-1], "") + text
    return lines


@pytest.mark.spark
def test_all_is_well(tmp_path: Path) -> None:
    """Each thing has a line, the statements run, and nothing is left behind."""
    run = subprocess.run(
        [sys.executable, "-m", "ctsql", "-w", str(tmp_path / "w"), "doctor"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    lines = _lines(run.stdout)
    assert list(lines) == NAMES
    assert "statements ran in" in lines["self-test"]
    assert list(tmp_path.iterdir()) == []


def test_without_java_and_without_a_place_to_write(tmp_path: Path) -> None:
    """Each fault has its remedy, and Spark is not started without Java."""
    tmp_path.joinpath("file").write_text("no folder")
    place = str(tmp_path / "file" / "w")
    run = CliRunner().invoke(main, ["-w", place, "doctor"], env={"JAVA_HOME": str(tmp_path)})
    assert run.exit_code == 1
    lines = _lines(run.stdout)
    assert "[JAVA_NOT_FOUND]" in lines["Java"]
    assert "unset JAVA_HOME" in lines["Java"]
    assert "self-test" not in lines
    assert "Not a directory" in lines["warehouse"]
    assert "-w FOLDER" in lines["warehouse"]
    assert "Traceback" not in run.stderr


def test_a_spark_home_of_another_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once, and Spark is not started."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.6.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    found = _examined(monkeypatch, tmp_path / "w")
    assert "SPARK_HOME is Spark 3.5.6" in found["Spark"].text
    assert "unset SPARK_HOME" in found["Spark"].remedy
    assert "self-test" not in found


def _examined(monkeypatch: pytest.MonkeyPatch, warehouse: Path) -> dict[str, doctor.Finding]:
    """What is found, by name, where the statements of the self-test would run."""
    monkeypatch.setattr(doctor, "self_test", lambda *_, **__: 1)
    return {finding.name: finding for finding in doctor.examine(str(warehouse), None)}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda folder: (folder / "a.txt").write_text(""), "The folder holds other files: a.txt."),
        (lambda folder: write_deltalake(folder, ROWS), "It is a Delta table."),
        (lambda folder: write_deltalake(folder / "_ctsql/catalog", ROWS), "did not create it"),
    ],
    ids=["files", "table", "catalog"],
)
def test_a_warehouse_that_no_statement_opens(
    make: Callable[[Path], object], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first statement would say about the folder is said, and what to do."""
    make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    found = _examined(monkeypatch, tmp_path)["warehouse"]
    assert text in found.text
    assert found.remedy
    assert sorted(tmp_path.rglob("*")) == before


def test_a_warehouse_that_is_a_link_to_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the folder around it then."""
    link = tmp_path / "w"
    link.symlink_to(tmp_path / "gone")
    for warehouse in (link, link / "w"):
        assert "-w FOLDER" in _examined(monkeypatch, warehouse)["warehouse"].remedy


def test_a_pyspark_that_pip_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vendor's, in front of the one that was installed."""
    monkeypatch.setattr("pyspark.__version__", "4.1.4-vendor-0")
    found = _examined(monkeypatch, tmp_path / "w")
    assert "this is Spark 4.1.4-vendor-0" in found["Spark"].text
    assert installed_versions()["spark"] == "4.1"  # in the names of Delta's JARs


def test_a_user_without_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As containers have that give each process a user id of its own."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    found = _examined(monkeypatch, tmp_path / "w")
    assert list(found) == NAMES
    assert not any(finding.remedy for finding in found.values())


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What helps is another such folder, not another warehouse."""

    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    found = _examined(monkeypatch, tmp_path)["self-test"]
    assert found.text == "No usable temporary directory found"
    assert "TMPDIR" in found.remedy


@pytest.mark.spark
def test_a_remote_store(tmp_path: Path) -> None:
    """Spark's connector writes, renames and lists there, and leaves nothing behind."""
    assert "listed" in doctor.remote_store(f"file://{tmp_path}", TEST_MASTER)
    assert list(tmp_path.iterdir()) == []
    tmp_path.joinpath("a.txt").write_text("no warehouse")
    for location, condition in (
        (f"file://{tmp_path}", "WAREHOUSE_NOT_FOUND"),
        ("gone://a/b", "STORAGE_ERROR"),
    ):
        look = partial(doctor.remote_store, location, TEST_MASTER)
        assert f"[{condition}]" in doctor.finding("warehouse", look).text
