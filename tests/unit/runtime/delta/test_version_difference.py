"""Whether the files that differ between two versions are less to read than those of each commit."""

import json
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyroaring import BitMap64

from ctsql.catalog.errors import Declined
from ctsql.runtime.delta.change_feed import changed_between, few_changed, files_to_read, reads_less
from ctsql.runtime.delta.keyed_scan import FILES_MAX
from ctsql.runtime.log.actions import DataFile, parse_commit, roll_files
from ctsql.runtime.log.table_changes import VersionChange

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
        [one.path for one in files_to_read(vectors, *sides) or ()]
        for sides in ((new, old), (old, new))
    ]
    assert tuple(found) == read


def _counted(count: int | None) -> tuple[Any, list[str]]:
    """A table of so many files, and what was asked of it that reads rows or the files' list."""
    asked: list[str] = []

    def answer(name: str, found: object) -> Callable[..., object]:
        return lambda *_: (asked.append(name), found)[1]

    table = SimpleNamespace(
        commit_at=lambda version: parse_commit(version, json.dumps(BIG), modified_ms=0),
        is_stored=lambda _: True,
        versions=SimpleNamespace(read_alike=lambda *_: True),
        files_count=lambda _: count,
        files=answer("files", {}),
        change_rows=answer("change rows", "rows"),
        gateway=SimpleNamespace(recent_changes=OrderedDict()),
        log_files="log",
    )
    return table, asked


@pytest.mark.parametrize("count", [None, FILES_MAX + 1])
def test_the_files_of_a_table_that_may_have_very_many_are_not_listed(count: int | None) -> None:
    """Nor where nobody knows how many: other writers leave no count."""
    table, asked = _counted(count)
    rows: Any = changed_between(table, 3, 4)
    assert rows == "rows"
    few = few_changed(table, VersionChange(time=9, before=3, version=4), ["k"])
    assert isinstance(few, Declined)
    assert asked == ["change rows"]
