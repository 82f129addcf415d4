"""What may be removed: the rules, on commits made up here."""

import json
from urllib.parse import unquote

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import Name
from ctsql.runtime.delta.files import TableFolder
from ctsql.runtime.log.actions import Commit, DataFile, StoredFile, parse_commit
from ctsql.runtime.maintenance.retention import (
    named_by,
    named_in,
    needed_files,
    newest_before,
    removable,
    removable_log,
    vector_file,
)
from ctsql.runtime.maintenance.vacuum import is_left_over, relative_names
from tests.helpers.items import an_item

VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "cardinality": 1}
VECTOR_FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def _commit(version: int, **paths: list[str]) -> Commit:
    """A commit that adds, removes and gives as change files; ``x*`` has the vector."""
    lines = []
    for kind, named in paths.items():
        for path in named:
            vector = VECTOR if path.endswith("*") else None
            action = {"path": path.rstrip("*"), "dataChange": True, "deletionVector": vector}
            lines.append(json.dumps({kind: action}))
    return parse_commit(version, "\n".join(lines), modified_ms=version)


# A table's life: a and b; b's first row goes (vector); b goes; an update says its change; c.
HISTORY = [
    _commit(0, add=["a"]),
    _commit(1, add=["b"]),
    _commit(2, remove=["b"], add=["b*"]),
    _commit(3, remove=["b*"]),
    _commit(4, remove=["a"], add=["c%20c"], cdc=["_change_data/cdc"]),
]
LIVE = [DataFile('{"add": {"path": "c%20c"}}')]
CASES = [
    (4, {"c%20c"}),
    (3, {"c%20c", "a", "_change_data/cdc"}),
    (2, {"c%20c", "a", "_change_data/cdc", "b", VECTOR_FILE}),
    (1, {"c%20c", "a", "_change_data/cdc", "b", VECTOR_FILE}),
]


@pytest.mark.parametrize(("floor", "expected"), CASES)
def test_needed(floor: int, expected: set[str]) -> None:
    """[needed-files]: what the floor holds, what came and went since, and what the changes are read
    from.
    """
    assert needed_files(LIVE, HISTORY[floor + 1 :]) == expected


def test_paths_are_decoded_once() -> None:
    """A folder of a partition may be called %3A; the log writes %253A then."""
    named = named_by(DataFile('{"add": {"path": "p=10%253A00/f"}}'))
    files = {*named, "file:/w/t/_change_data/a%20b"}
    assert relative_names("file:/w/t", files) == {"p=10%3A00/f", "_change_data/a b"}


def test_removable() -> None:
    """[removable-files]: named and not needed goes at once; not named when it is old."""
    files = [
        StoredFile(path=path, size=1, modified_ms=at)
        for path, at in {
            "a": 9,
            "b": 9,
            "c c": 1,
            "_change_data/cdc": 9,
            "young": 5,
            "old": 4,
        }.items()
    ]
    needed = {unquote(path) for path in needed_files(LIVE, HISTORY[4:])}
    gone = removable(files, needed, named_in(HISTORY[:4]), unnamed_before_ms=5)
    assert {f.path for f in gone} == {"b", "old"}


@pytest.mark.parametrize(
    ("descriptor", "file"),
    [
        (None, None),
        (
            {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lk"},
            None,
        ),
        ({"storageType": "p", "pathOrInlineDv": "s3://b/x%20y.bin"}, "s3://b/x%20y.bin"),
        (VECTOR, VECTOR_FILE),
    ],
)
def test_vector_file(descriptor: dict[str, object] | None, file: str | None) -> None:
    """As the protocol's examples have it."""
    assert vector_file(descriptor) == file


def _names(*versions: int, checkpoints: tuple[str, ...] = ()) -> list[str]:
    made = [f"{v:020}.{kind}" for v in versions for kind in ("json", "crc")]
    return [*made, *checkpoints, "_last_checkpoint", ".ctsql.lock"]


ONE = f"{2:020}.checkpoint.parquet"
PARTS = tuple(f"{2:020}.checkpoint.{n:010}.{2:010}.parquet" for n in (1, 2))


@pytest.mark.parametrize(
    ("checkpoints", "floor", "expected"),
    [
        ((), 3, set()),
        ((ONE,), 1, set()),
        ((ONE,), 2, {0, 1}),
        ((ONE,), 4, {0, 1}),
        (PARTS, 3, {0, 1}),
        (PARTS[:1], 3, set()),
        # What two writers left of a checkpoint of three parts, and of one of two.
        ((f"{2:020}.checkpoint.{1:010}.{3:010}.parquet", PARTS[1]), 3, set()),
        ((ONE, f"{4:020}.checkpoint.parquet"), 4, {0, 1, 2, 3}),
    ],
)
def test_removable_log(checkpoints: tuple[str, ...], floor: int, expected: set[int]) -> None:
    """[removable-logs]: below the newest whole checkpoint at or below the floor, oldest first."""
    found = removable_log(_names(0, 1, 2, 3, 4, checkpoints=checkpoints), floor)
    assert {int(name[:20]) for name in found} == expected
    assert found == sorted(found)


def _table_at(location: str | None) -> Item:
    kind = ObjectKind.VIEW if location is None else ObjectKind.TABLE
    return an_item(kind, "i", name=Name("s", "t"), location=location)


@pytest.mark.parametrize(
    ("name", "modified_ms", "owner", "left_over"),
    [
        ("t-0123abcd", 9, None, True),
        ("t-0123abcd", 9, "file:/w/s/u-0123abcd", True),
        ("t-0123abcd", 10, None, False),  # young
        ("t-0123abcd", 9, "file:/w/s/t-0123abcd", False),
        ("t-0123abcd", 9, "file:/w/s/t-0123abcd/below/", False),
        ("t-0123abcd", 9, "file:/w/s/t-0123abcdef", True),
        ("t-0123abc", 9, None, False),  # not as CREATE names them
        ("t-0123abcd-state", 9, None, False),
        ("my data-0123abcd", 9, None, False),
    ],
)
def test_left_over_folders(name: str, modified_ms: int, owner: str | None, left_over: bool) -> None:
    """[only-unowned-folders]: only what CREATE made, nobody owns and nobody touched lately."""
    folder = TableFolder(
        location=f"file:/w/s/{name}", modified_ms=modified_ms, size=1, files_count=1
    )
    assert is_left_over(folder, Catalog.of([_table_at(owner)]), before_ms=10) is left_over


@pytest.mark.parametrize(
    ("times", "before_ms", "expected"),
    [
        ((10, 20, 30, 40), 35, 2),
        ((10, 20, 30, 40), 30, 1),
        ((10, 20, 30, 40), 99, 3),
        ((10, 20, 30, 40), 5, 0),
        ((10, 50, 30, 60), 40, 2),
    ],
)
def test_newest_before(times: tuple[int, ...], before_ms: int, expected: int) -> None:
    """The first of a log is kept where all are younger; a clock that went back costs nothing."""
    assert newest_before(range(len(times)), before_ms, times.__getitem__) == expected


def test_newest_before_reads_few() -> None:
    """Of ten thousand commits some fourteen are read."""
    read: list[int] = []
    found = newest_before(range(10_000), 7_000, lambda version: (read.append(version), version)[1])
    assert found == 6_999
    assert len(read) < 16
