"""Disks that fail: read-only ones and full ones. Those that need root say so."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="mounting needs Linux and root"
)


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """A folder that cannot be written: for root by a mount, for others by its permissions."""
    if os.geteuid() == 0:
        _run("mount", "--bind", path, path)
        try:
            _run("mount", "-o", "remount,ro,bind", path)
            yield
        finally:
            _run("umount", "-l", path)
        return
    folders = [path, *(p for p in path.rglob("*") if p.is_dir())]
    modes = {p: p.stat().st_mode for p in folders}
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[None]:
    """A disk of its own at a folder."""
    path.mkdir(parents=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", path)
    try:
        yield
    finally:
        _run("umount", "-l", path)


@contextmanager
def filled(path: Path, *, left: int) -> Iterator[None]:
    """A disk with so many bytes left, in a file that is gone afterwards."""
    ballast = path / ".ballast"
    stat = os.statvfs(path)
    wanted = stat.f_bavail * stat.f_frsize - left
    with ballast.open("wb") as out:
        out.write(b"\0" * wanted)
    try:
        yield
    finally:
        ballast.unlink()
