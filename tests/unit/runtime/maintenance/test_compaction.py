"""Which files are rewritten: the decision, by tables."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.maintenance.compaction import MEBIBYTE, ROUTINE, THOROUGH, Limits, choose

SMALL = Limits(
    small_bytes=100,
    small_files=2,
    deleted_share=0.5,
    deleted_rows=5,
    file_bytes=250,
    batch_bytes=10_000,
)


def _file(name: str, size: int, rows: int | None = 10, deletes: int = 0, p: str = "") -> DataFile:
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": deletes}
    action = {
        "path": name,
        "size": size,
        "partitionValues": {"p": p or None},
        "stats": json.dumps({} if rows is None else {"numRecords": rows}),
        **({"deletionVector": vector} if deletes else {}),
    }
    return DataFile(json.dumps({"add": action}))


A, B, C, D = (_file(name, 90) for name in "abcd")
LARGE = _file("large", 300, 100)

CASES = [
    ("an empty table", [], []),
    ("as many small files as are left alone", [A, B, LARGE], []),
    ("one more", [A, B, C, LARGE], ["ab"]),
    ("a bin is full, the rest makes another", [A, B, C, D, LARGE], ["ab", "cd"]),
    ("a file that is left by itself is not rewritten", [A, B, C], ["ab"]),
    ("a file just as large as small is", [A, B, _file("e", 100)], []),
    ("few deleted rows", [_file("w", 300, 8, 5)], []),
    ("many deleted rows, but a small share", [_file("w", 300, 20, 6)], []),
    ("worn", [_file("w", 300, 10, 6)], ["w"]),
    ("worn files, but the table is not", [_file("w", 300, 10, 6), _file("x", 900, 900)], []),
    ("one worn file in a table that is not", [_file("w", 300, 10, 9), LARGE], []),
    ("two worn ones become one", [_file("w", 200, 10, 8), _file("x", 200, 10, 8)], ["wx"]),
    ("deleted rows without statistics", [_file("w", 300, None, 6)], ["w"]),
    (
        "partitions are not mixed",
        [_file("a", 9, p="1"), _file("b", 9, p="2"), _file("c", 9, p="1"), _file("d", 9, p="1")],
        ["acd"],
    ),
    (
        "nor is NULL with a value",
        [_file("a", 9), _file("b", 9, p="2"), _file("c", 9), _file("d", 9), _file("e", 9, p="2")],
        ["acd"],
    ),
]


@pytest.mark.parametrize(("case", "files", "expected"), CASES, ids=[c[0] for c in CASES])
def test_choose(case: str, files: list[DataFile], expected: list[str]) -> None:
    """The files of each new file."""
    found = ["".join(sorted(f.path for f in b)) for b in choose(files, SMALL)]
    assert sorted(found) == expected, case


def test_a_round_is_bounded_but_never_empty() -> None:
    """What is more than a batch waits for the next round."""
    files = [_file(f"{i:02}", 90) for i in range(10)]
    limits = replace(SMALL, deleted_share=1, batch_bytes=400)
    assert [len(b) for b in choose(files, limits)] == [2, 2]


_STATS = st.builds(
    _file,
    st.uuids().map(str),
    size=st.integers(1, 200 * MEBIBYTE),
    rows=st.one_of(st.none(), st.integers(50, 1000)),
    deletes=st.integers(0, 50),
    p=st.sampled_from(["", "1"]),
)


@given(st.lists(_STATS, max_size=80), st.sampled_from([ROUTINE, THOROUGH, SMALL]))
def test_bins(files: list[DataFile], limits: Limits) -> None:
    """[bins-of-one-partition]: one partition a bin, each file once, no file by itself without
    deleted rows.
    """
    bins = choose(files, limits)
    paths = [f.path for b in bins for f in b]
    assert len(paths) == len(set(paths))
    assert set(paths) <= {f.path for f in files}
    for one in bins:
        assert len({f.partition for f in one}) == 1
        assert len(one) > 1 or one[0].deleted_count


@given(st.lists(_STATS, max_size=80), st.sampled_from([ROUTINE, THOROUGH]))
def test_it_ends(files: list[DataFile], limits: Limits) -> None:
    """[within-limits-after]: rewriting what is chosen, again and again, comes to rest."""
    live = {f.path: f for f in files}
    for round_ in range(len(files) + 1):
        bins = choose(live.values(), limits)
        if not bins:
            return
        for i, one in enumerate(bins):
            for f in one:
                del live[f.path]
            path = f"new-{round_}-{i}"
            size, rows = (
                sum(f.live_bytes for f in one),
                sum((f.records_count or 50) - f.deleted_count for f in one),
            )
            live[path] = _file(path, size, rows, p=dict(one[0].partition).get("p") or "")
    raise AssertionError("it goes on for ever")
