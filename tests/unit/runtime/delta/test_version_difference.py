"""Whether the files that differ between two versions are less to read than those of each commit."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyroaring import BitMap64

from ctsql.runtime.delta.version_difference import _shown, reads_less
from ctsql.runtime.log.actions import parse_commit, roll_files
from ctsql.runtime.log.data_files import DataFile

Action = dict[str, object]


def add(path: str, size: int, vector: str = "", *, changes: bool = True) -> Action:
    """A file that is added; ``vector`` identifies its deletion vector."""
    fields: Action = {"path": path, "size": size, "dataChange": changes, "partitionValues": {}}
    if vector:
        stored = {"storageType": "u", "pathOrInlineDv": vector, "sizeInBytes": 1, "cardinality": 1}
        fields["deletionVector"] = stored
    return {"add": fields}


def remove(path: str, *, changes: bool = True) -> Action:
    """A file that is removed, without its size, which writers may leave out."""
    return {"remove": {"path": path, "dataChange": changes}}


BIG = add("big", 1000)
MORE_DELETED = [[remove("big"), add("big", 1000, f"v{n}")] for n in range(3)]
REWRITTEN = [[remove("big"), add("b1", 990)], [remove("b1"), add("b2", 980)]]
COMPACTED = [
    [add("new", 10)],
    [remove("big", changes=False), remove("new", changes=False), add("all", 1010, changes=False)],
]


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        (MORE_DELETED, True),
        (MORE_DELETED[:1], True),
        (REWRITTEN, True),
        ([[add("new", 10)]], True),
        (COMPACTED, False),
        ([*MORE_DELETED, *COMPACTED], True),
    ],
)
def test_the_smaller_one_is_read(commits: list[list[Action]], expected: bool) -> None:
    """Compacted files count for the difference only."""
    texts = ["\n".join(map(json.dumps, actions)) for actions in ([BIG], *commits)]
    first, *later = [parse_commit(n, text, modified_ms=0) for n, text in enumerate(texts)]
    old = roll_files({}, [first])
    new = roll_files(dict(old), later)
    assert reads_less(later, old, new) is expected


@pytest.mark.parametrize(
    ("before", "after", "read"),
    [(9, 9, ([], ["some of 9"])), (9, None, ([], ["some of 9"])), (None, None, (["f"], ["f"]))],
)
def test_both_sides_are_read_alike(
    before: int | None, after: int | None, read: tuple[list[str], list[str]]
) -> None:
    """Of a file in both some rows, or all; a writer that deletes rows may not have counted them."""
    vectors: Any = SimpleNamespace(
        deleted_rows=lambda file: BitMap64([1] if file.vector else []),
        show_only=lambda _file, _rows, count: SimpleNamespace(path=f"some of {count}"),
    )

    def files(count: int | None, vector: str) -> dict[str, DataFile]:
        action: Any = add("f", 100, vector)
        if count is not None:
            action["add"]["stats"] = json.dumps({"numRecords": count})
        return {"f": DataFile(json.dumps(action))}

    old, new = files(before, ""), files(after, "v")
    found = [
        [one.path for one in _shown(vectors, *sides) or ()] for sides in ((new, old), (old, new))
    ]
    assert tuple(found) == read
