"""Where nothing of a user's is written or attached: the folders of ctsql and Delta."""

from pathlib import Path

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.warehouse.stores.location import check_outside, is_within


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warehouse with a table, links to it, and a Delta table beside it."""
    folder = tmp_path / "w"
    (folder / "default" / "t-0123abcd" / "_delta_log").mkdir(parents=True)
    (tmp_path / "theirs" / "_delta_log").mkdir(parents=True)
    (tmp_path / "free").mkdir()
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "deep").symlink_to(folder / "default" / "t-0123abcd")
    (tmp_path / "file.csv").symlink_to(folder / "out.csv")
    (tmp_path / "log").symlink_to(tmp_path / "theirs" / "_delta_log")
    monkeypatch.chdir(tmp_path)
    return folder


def _refusal(place: str, warehouse: object, **options: bool) -> str:
    with pytest.raises(CtsqlError, match="NOT_SUPPORTED") as caught:
        check_outside(place, str(warehouse), "a file", **options)
    return caught.value.detail or ""


@pytest.mark.parametrize(
    "place",
    [
        "w", "w/", "w/out.csv", "w/no/such/folder/x", "./w//x", "free/../w/x", "file:{}/w/x",
        "FILE:{}/w/x", "file://{}/w/", "link", "link/x", "deep/x.csv", "deep/../x", "file.csv",
        "{}/w/_ctsql/timeline",
    ],
)  # fmt: skip
def test_no_place_in_the_warehouse(warehouse: Path, place: str) -> None:
    """However it is spelled, and through links, also where nothing is yet."""
    place = place.format(warehouse.parent)
    for spelled in (str(warehouse), f"file:{warehouse}", "w", "link", f"{warehouse}/"):
        assert "is in the warehouse" in _refusal(place, spelled)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("theirs/_delta_log/00000000000000000009.json", "folder _delta_log"),
        ("theirs/_DELTA_LOG", "folder _DELTA_LOG"),
        ("log/x.json", "folder _delta_log"),
        ("other/_ctsql/timeline", "folder _ctsql"),
        ("s3a://lake/t/_delta_log/x", "folder _delta_log"),
        ("theirs/x.csv", "Delta table {}/theirs"),
        ("theirs/a/b/x.csv", "Delta table {}/theirs"),
    ],
)
def test_no_file_among_those_of_others(warehouse: Path, place: str, reason: str) -> None:
    """Logs and system tables anywhere; of a Delta table VACUUM would delete the file."""
    assert reason.format(warehouse.parent) in _refusal(place, warehouse)


def test_a_folder_does_not_hold_the_warehouse(warehouse: Path) -> None:
    """It would be written anew, or be a table whose VACUUM looks for files there."""
    above = str(warehouse.parent)
    assert "contains the warehouse" in _refusal(above, warehouse, is_folder=True)
    check_outside(above, str(warehouse), "a file")


@pytest.mark.parametrize("place", ["free/x.csv", "w2/x", "w.csv", "W3/x", "s3a://lake/w/x"])
def test_other_places_are_free(warehouse: Path, place: str) -> None:
    """A name that only begins as the warehouse's does is another one."""
    check_outside(place, str(warehouse), "a file", is_folder=True)


def test_a_table_within_another_can_be_attached(warehouse: Path) -> None:
    """It is there already."""
    check_outside("theirs/inner", str(warehouse), "LOCATION", is_folder=True, is_new=False)


def test_letters_of_another_case_where_the_disk_takes_them_for_the_same(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a disk says that both are one folder."""
    monkeypatch.setattr(
        Path, "samefile", lambda a, b: str(a).casefold() == str(b).casefold(), raising=True
    )
    assert "is in the warehouse" in _refusal("W/x", warehouse)


def test_other_stores() -> None:
    """Two schemes of one store, and dots; another bucket is another place."""
    assert is_within("s3://lake/w/x", "s3a://lake/w/")
    assert is_within("S3A://lake/w/./t/../x", "s3a://lake/w")
    assert is_within("abfs://c@a.net/w", "abfss://c@a.net/w")
    for place in ("s3a://pond/w/x", "s3a://lake/w2", "gs://lake/w/x", "/lake/w/x", "file:/lake/w"):
        assert not is_within(place, "s3a://lake/w")
        assert not is_within("s3a://lake/w/x", place)
