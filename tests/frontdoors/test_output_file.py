r"""The file of ``-o``, ``\o`` and ``\g``: what is in it after errors, and while rows come."""

import os
import stat
import threading
from pathlib import Path

import pytest

from ctsql.rendering.output_file import OutputFile
from tests.frontdoors.test_cli import ONE, invoke, spawn

PATIENCE_SECONDS = 60


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-c", "SELECT 'open"], 1),
        (["-c", "BAD"], 1),
        (["-c", "SELECT 1; BAD"], 1),
        (["-c", "SELECT 1", "-c", "BAD"], 1),
        (["-c", "DEFECT"], 1),
        (["--once", "-c", "SELECT 1"], 2),
        (["missing.sql"], 2),
        (["--set", "x", "-c", "SELECT 1"], 2),
        (["plan", "no-such-folder"], 4),
    ],
)
def test_an_error_leaves_the_old_file(tmp_path: Path, arguments: list[str], code: int) -> None:
    """Whatever failed, and whatever was written before: the file is as it was, and no other."""
    path = tmp_path / "rows.csv"
    path.write_text("old")
    assert invoke(*arguments, "-o", str(path)).exit_code == code
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("rows.csv", "old")]


def test_a_file_is_replaced_when_all_has_run(tmp_path: Path) -> None:
    """It keeps its mode, and a link to it stays a link; without rows it is empty."""
    path, link = tmp_path / "rows.txt", tmp_path / "link"
    path.write_text("old" * 100)
    path.chmod(0o640)
    link.symlink_to(path)
    assert invoke("-c", "SELECT 1", "-o", str(link)).exit_code == 0
    assert (path.read_text(), link.is_symlink()) == (ONE, True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert invoke("-c", "INSERT x", "-o", str(path)).exit_code == 0
    assert path.read_text() == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "rows.txt"]


def test_rows_without_end_are_seen_as_they_come(tmp_path: Path) -> None:
    """The file of a subscription is there while it goes on."""
    path = tmp_path / "rows.csv"
    process = spawn("--format", "csv", "-o", str(path), "-c", "SUBSCRIBE x")
    waiting = threading.Event()
    try:
        for _ in range(PATIENCE_SECONDS * 10):
            if path.exists() and path.read_text().count("\n") == 4:
                break
            waiting.wait(0.1)
        assert path.read_text() == "t,diff,name\n7,1,a\n7,2,\n9,-1,a|b\n"
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_a_pipe_is_written_at_once(tmp_path: Path) -> None:
    """What is not a regular file is not replaced."""
    path, read = tmp_path / "pipe", list[str]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    assert invoke("-c", "SELECT 1", "-o", str(path)).exit_code == 0
    reader.join(PATIENCE_SECONDS)
    assert read == [ONE]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert invoke("-c", "SELECT 1", "-o", os.devnull).exit_code == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_what_is_not_published_is_not_seen(tmp_path: Path) -> None:
    """Closing alone leaves nothing; what is written behind the publication is in the file."""
    path = tmp_path / "x"
    with OutputFile(path) as out:
        out.write("lost")
        assert not out.is_empty
    assert list(tmp_path.iterdir()) == []
    with OutputFile(path) as out:
        assert out.is_empty
        out.write("first")
        out.publish()
        out.write(", then")
        out.buffer.flush()
    assert path.read_text() == "first, then"
    with pytest.raises(OSError, match="No such file"):
        OutputFile(tmp_path / "no" / "x")
