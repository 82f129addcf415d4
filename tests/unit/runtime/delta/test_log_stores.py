"""A log's files on a local disk, as this process reads them."""

import struct
import zlib
from pathlib import Path

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta.stores.log_stores import LocalStore
from ctsql.runtime.spark.failures.storage_errors import FILE_MISSING, NOT_ALLOWED

TEXT = "a line\nand another\n"


def test_what_is_not_there(tmp_path: Path) -> None:
    """A folder that is not there has no names; only the text of a missing file is an error."""
    store = LocalStore(tmp_path / "none")
    assert store.names() == ()
    assert not store.exists("a.json")
    assert store.mark("a.json") is None
    with pytest.raises(CtsqlError) as raised:
        store.read("a.json")
    assert (raised.value.condition, raised.value.message) == ("STORAGE_ERROR", FILE_MISSING)


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    """It is an error, not a folder without files."""
    (tmp_path / "log").write_text(TEXT)
    store = LocalStore(tmp_path / "log")
    for ask in (store.names, lambda: store.exists("a"), lambda: store.read("a")):
        with pytest.raises(CtsqlError, match="STORAGE_ERROR") as raised:
            ask()
        assert raised.value.message not in (FILE_MISSING, NOT_ALLOWED)


@pytest.mark.parametrize(
    ("sums", "fits"),
    [
        (struct.pack(">4sII", b"crc\0", 512, zlib.crc32(TEXT.encode())), True),
        (struct.pack(">4sII", b"crc\0", 512, zlib.crc32(TEXT.encode()) ^ 1), False),
        (struct.pack(">4sI", b"crc\0", 512), False),
        (struct.pack(">4sII", b"abc\0", 512, 7), True),
        (b"crc", True),
    ],
    ids=["right", "wrong", "without sums", "of another kind", "cut off"],
)
def test_checksums_of_hadoop(tmp_path: Path, sums: bytes, fits: bool) -> None:
    """A file that does not fit them is damaged; what is no file of checksums is ignored."""
    (tmp_path / "a.json").write_text(TEXT)
    (tmp_path / ".a.json.crc").write_bytes(sums)
    store = LocalStore(tmp_path)
    if fits:
        assert store.read("a.json") == TEXT
        return
    with pytest.raises(CtsqlError, match="STORED_DATA_INVALID"):
        store.read("a.json")
