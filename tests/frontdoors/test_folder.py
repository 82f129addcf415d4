"""The .sql files of a folder: which are read, in which order, and what is refused."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.console.folder import sql_files


def test_files_in_order_of_name(tmp_path: Path) -> None:
    """Files of folders below come where their names sort; hidden ones and other endings do not."""
    for name in ("b.sql", "a/2.sql", "a/1.sql", ".git/x.sql", "a/.x.sql", "c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("CREATE TABLE :t (k INT)")
    found = sql_files(tmp_path, {"t": "one"})
    assert [Path(s.name).relative_to(tmp_path).as_posix() for s in found] == [
        "a/1.sql", "a/2.sql", "b.sql",
    ]  # fmt: skip
    assert {s.text for s in found} == {"CREATE TABLE one (k INT)"}


def test_refused(tmp_path: Path) -> None:
    """No folder, and an empty one."""
    (tmp_path / "none").mkdir()
    for folder, told in (("missing", "no folder"), ("none", "no .sql file")):
        with pytest.raises(CtsqlError, match=told):
            sql_files(tmp_path / folder)


def _denied(path: str) -> Callable[[Path], None]:
    """A file or folder for which :func:`_deny` makes the answer of the system."""

    def make(folder: Path) -> None:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).mkdir() if path.endswith("/") else (folder / path).write_text("SELECT 1")

    return make


def _socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "s.sql"))


def _loop(folder: Path) -> None:
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")


def _linked_folder(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder.parent / "elsewhere" / "x.sql").write_text("CREATE TABLE t (k INT)")
    (folder / "more").symlink_to(folder.parent / "elsewhere")


HIDES = {
    "a dangling link": (lambda f: (f / "x.sql").symlink_to("gone"), ["x.sql is a link to nothing"]),
    "one of any name": (lambda f: (f / "more").symlink_to("gone"), ["more is a link to nothing"]),
    "a linked folder": (_linked_folder, ["more is a link to a folder"]),
    "the folder itself": (lambda f: (f / "x").symlink_to("."), ["x is a link to a folder"]),
    "a loop of links": (_loop, ["a is a link to nothing", "b is a link to nothing"]),
    "a FIFO": (lambda f: os.mkfifo(f / "x.sql"), ["x.sql is not a regular file"]),
    "a link to a FIFO": (
        lambda f: (os.mkfifo(f / "p"), (f / "x.sql").symlink_to("p")),
        ["x.sql is not a regular file"],
    ),
    "a socket": (_socket, ["s.sql is not a regular file"]),
    "a device": (lambda f: (f / "x.sql").symlink_to("/dev/null"), ["x.sql is not a regular file"]),
    "another case": (
        lambda f: [(f / n).write_text("SELECT 1") for n in ("k.SQL", "l.Sql")],
        ["k.SQL does not end in .sql", "l.Sql does not end in .sql"],
    ),
    "a name": (
        lambda f: Path(os.fsdecode(bytes(f / "x") + b"\xff.sql")).write_text("SELECT 1"),
        ["x\ufffd.sql has a name that is not UTF-8"],
    ),
    "the name of a folder": (
        lambda f: Path(os.fsdecode(bytes(f / "x") + b"\xff")).mkdir(),
        ["x\ufffd has a name that is not UTF-8"],
    ),
    "a text": (
        lambda f: (f / "x.sql").write_bytes(b"SELECT \xff"),
        ["x.sql is not UTF-8 text: byte 7"],
    ),
    "a file that may not be read": (_denied("x.sql"), ["x.sql cannot be read: Permission denied"]),
    "a folder that may not be listed": (_denied("x/"), ["x cannot be read: Permission denied"]),
    "one below": (_denied("y/x/"), ["y/x cannot be read: Permission denied"]),
    "two": (
        lambda f: ((f / "x.sql").symlink_to("gone"), os.mkfifo(f / "y.sql")),
        ["x.sql is a link to nothing", "y.sql is not a regular file"],
    ),
}
"""What may hold definitions and cannot be read: how it is made, and what is told."""


@pytest.mark.parametrize("way", HIDES)
def test_what_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Each is named, and no folder is taken for one with fewer definitions."""
    make, told = HIDES[way]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "good.sql").write_text("CREATE TABLE good (k INT)")
    make(folder)
    if "may not" in way or way == "one below":
        denied = folder / ("x.sql" if "file" in way else "y/x" if way == "one below" else "x")
        _deny(monkeypatch, denied)
    with pytest.raises(CtsqlError, match="can be read") as found:
        sql_files(folder)
    for text in told:
        assert f"{folder}/{text}" in (found.value.detail or "")


def _deny(monkeypatch: pytest.MonkeyPatch, denied: Path) -> None:
    """Refuse to read a path, as the system does unless the test is run by root."""
    scandir, read_bytes = os.scandir, Path.read_bytes

    def scan(path: Path) -> Any:
        if Path(path) == denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    def read(path: Path) -> bytes:
        if path == denied:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read_bytes(path)

    monkeypatch.setattr(os, "scandir", scan)
    monkeypatch.setattr(Path, "read_bytes", read)


def test_a_file_that_is_removed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was listed and is gone when it is read is an error."""
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).write_text("CREATE TABLE t (k INT)")
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        (tmp_path / "b.sql").unlink(missing_ok=True)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(CtsqlError) as found:
        sql_files(tmp_path)
    assert "b.sql cannot be read: No such file" in (found.value.detail or "")


def test_what_is_read(tmp_path: Path) -> None:
    """A link to a file, and a folder whose name ends as a file's; what is no SQL hinders nobody."""
    (tmp_path / "x.sql").mkdir()
    (tmp_path / "x.sql" / "y.sql").write_text("CREATE TABLE t (k INT)")
    (tmp_path / "z.sql").symlink_to("x.sql/y.sql")
    (tmp_path / ".#x.sql").symlink_to("somebody@machine.1234")  # an editor's lock
    (tmp_path / "notes.txt").symlink_to("x.sql/y.sql")
    os.mkfifo(tmp_path / "pipe")
    assert [Path(s.name).relative_to(tmp_path).as_posix() for s in sql_files(tmp_path)] == [
        "x.sql/y.sql", "z.sql",
    ]  # fmt: skip
