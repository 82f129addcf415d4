"""Files on a local disk get the modes that Hadoop gives them, without a process for each."""

import os
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection

pytestmark = pytest.mark.spark


def _local(con: Connection) -> tuple[Any, Any]:
    jvm: Any = con.spark._jvm
    hadoop = jvm.org.apache.hadoop.fs
    configured = con.spark.sparkContext._jsc.hadoopConfiguration()
    return hadoop, hadoop.FileSystem.getLocal(configured)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o750, 0o777, 0o000, 0o1777])
def test_modes(con: Connection, tmp_path: Path, mode: int) -> None:
    """A mode is set as it is given, with the sticky bit of a folder."""
    hadoop, local = _local(con)
    folder = tmp_path / "a b"
    folder.mkdir()
    local.setPermission(hadoop.Path(str(folder)), hadoop.permission.FsPermission(f"{mode:03o}"))
    assert folder.stat().st_mode & 0o7777 == mode


def test_what_spark_writes(con: Connection, tmp_path: Path) -> None:
    """All of the JVM has the file system, and new files have the mode of the process's umask."""
    hadoop, local = _local(con)
    configured = con.spark.sparkContext._jsc.hadoopConfiguration()
    assert local.getRaw().getClass().getName() == "ctsql.LocalDisk$Raw"
    assert hadoop.Path(str(tmp_path)).getFileSystem(configured).equals(local)
    con.spark.range(3).coalesce(1).write.parquet(str(tmp_path / "written"))
    files = [tmp_path / "written" / name for name in os.listdir(tmp_path / "written")]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o644}
    assert any(file.name.endswith(".parquet.crc") for file in files), "checksums are kept"


def test_a_missing_file(con: Connection, tmp_path: Path) -> None:
    """What cannot be done is an error, as with ``chmod``."""
    hadoop, local = _local(con)
    gone = hadoop.Path(str(tmp_path / "gone"))
    with pytest.raises(Exception, match="gone"):
        local.setPermission(gone, hadoop.permission.FsPermission("600"))
