"""What is kept of data files: so many bytes at most, and what is used."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from ctsql.runtime.delta import bounded_cache
from ctsql.runtime.delta.bounded_cache import BoundedCache
from ctsql.runtime.delta.parquet import parquet_reader
from ctsql.runtime.delta.parquet.parquet_reader import ScannedFile
from ctsql.runtime.delta.stores.file_stores import LOCAL

SIZE = 8


def _there(cache: BoundedCache[str], names: str) -> str:
    return "".join(name for name in names if cache.find(name) is not None)


def test_what_was_not_used_for_long_goes() -> None:
    """Together they take so many bytes at most; one that is larger is not kept, and none goes."""
    cache: BoundedCache[str] = BoundedCache(3 * SIZE)
    for name in "abc":
        cache.keep(name, name, SIZE)
    assert cache.find("a") == "a"
    cache.keep("d", "d", SIZE)
    assert _there(cache, "abcd") == "acd"
    cache.keep("d", "d", SIZE)
    cache.keep("e", "e", 3 * SIZE + 1)
    assert _there(cache, "abcde") == "acd"
    cache.keep("f", "f", 3 * SIZE)
    assert _there(cache, "acdf") == "f"
    cache.keep("g", "g", SIZE)
    assert _there(cache, "fg") == "g"


def test_what_nobody_asks_for_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a minute, with the next new value, though there is room."""
    now = 0.0
    monkeypatch.setattr(bounded_cache, "monotonic", lambda: now)
    cache: BoundedCache[str] = BoundedCache(10 * SIZE)
    for name in "abc":
        cache.keep(name, name, SIZE)
    now = 59.0
    assert cache.find("b") == "b"
    cache.keep("d", "d", SIZE)
    assert _there(cache, "ac") == "ac"  # which uses them
    now = 119.5
    cache.keep("e", "e", SIZE)
    assert _there(cache, "abcde") == "e"
    now = 160.0
    cache.keep("f", "f", SIZE)
    assert _there(cache, "ef") == "ef"
    assert cache.bytes_kept == 2 * SIZE


def test_layouts_of_wide_files_take_so_many_bytes_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not so many files: a file of five hundred columns takes a megabyte."""
    wide = pa.table({f"column_{i}": pa.array(range(5)) for i in range(300)})
    monkeypatch.setattr(parquet_reader, "layouts", BoundedCache(3 * 1024 * 1024))
    files = [ScannedFile(str(n), LOCAL, str(tmp_path / str(n)), 0, BitMap64()) for n in range(12)]
    for file in files:
        pq.write_table(wide, file.path)
        parquet_reader.layout_of(file)
    cache = parquet_reader.layouts
    kept = [file.name for file in files if cache.find((LOCAL, file.path)) is not None]
    assert 0 < len(kept) < 8
    assert kept[-1] == "11"
    assert parquet_reader.layout_of(files[-1]) is parquet_reader.layout_of(files[-1])
