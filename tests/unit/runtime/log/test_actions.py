"""What a commit does to a table's rows, and what it says of files, by the log alone."""

import json
from typing import Any

import pytest

from ctsql.runtime.log.actions import (
    Commit,
    DamagedCommit,
    DataFile,
    RowChange,
    classify,
    parse_checksum,
    parse_commit,
    rows_changed,
)

NOW = 1_700_000_000_000


def _vector(cardinality: int) -> dict[str, Any]:
    return {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 34,
            "cardinality": cardinality, "offset": 1}  # fmt: skip


def _add(
    path: str, rows: int | None = 3, *, deletes: int = 0, data_change: bool = True
) -> dict[str, Any]:
    add: dict[str, Any] = {"path": path, "size": 9, "dataChange": data_change}
    if rows is not None:
        add["stats"] = json.dumps({"numRecords": rows, "tightBounds": not deletes})
    if deletes:
        add["deletionVector"] = _vector(deletes)
    return {"add": add}


def _remove(path: str, *, deletes: int = 0, data_change: bool = True) -> dict[str, Any]:
    remove: dict[str, Any] = {"path": path, "dataChange": data_change, "deletionTimestamp": NOW}
    if deletes:
        remove["deletionVector"] = _vector(deletes)
    return {"remove": remove}


def _removed_rows(rows: int, *, deletes: int) -> dict[str, Any]:
    """A removed file that says how many rows it had."""
    return {"remove": _add("a", rows, deletes=deletes)["add"]}


def _info(operation: str, **more: Any) -> dict[str, Any]:
    return {"commitInfo": {"timestamp": NOW, "inCommitTimestamp": NOW, "operation": operation}
            | more}  # fmt: skip


CDC = {"cdc": {"path": "_change_data/cdc-0.parquet", "size": 9, "dataChange": False}}
METADATA = {"metaData": {"id": "x", "schemaString": "{}", "configuration": {}}}


def _commit(*actions: dict[str, Any], version: int = 4) -> Commit:
    text = "\n".join(json.dumps(a) for a in actions) + "\n"
    return parse_commit(version, text, modified_ms=NOW + 99)


CASES: dict[str, tuple[RowChange, list[dict[str, Any]]]] = {
    "append": (RowChange.APPEND, [_info("WRITE"), _add("a"), _add("b")]),
    "append without statistics": (RowChange.APPEND, [_info("WRITE"), _add("a", None)]),
    "append of no row": (RowChange.NONE, [_info("WRITE"), _add("a", 0)]),
    "append of no file": (RowChange.NONE, [_info("WRITE")]),
    "a file whose every row is deleted": (RowChange.NONE, [_add("a", 2, deletes=2)]),
    "new columns and rows": (RowChange.APPEND, [_info("WRITE"), METADATA, _add("a")]),
    "create table": (RowChange.NONE, [_info("CREATE TABLE"), METADATA]),
    "table properties": (RowChange.NONE, [_info("SET TBLPROPERTIES"), METADATA]),
    "optimize": (
        RowChange.NONE,
        [
            _info("OPTIMIZE"),
            _add("c", 6, data_change=False),
            _remove("a", data_change=False),
            _remove("b", data_change=False),
        ],
    ),
    "optimize that purges a deletion vector": (
        RowChange.NONE,
        [
            _info("REORG"),
            _add("c", 2, data_change=False),
            _remove("a", deletes=1, data_change=False),
        ],
    ),
    "delete by a first deletion vector": (
        RowChange.DELETE,
        [_info("DELETE"), _add("a", deletes=1), _remove("a")],
    ),
    "delete by a larger deletion vector": (
        RowChange.DELETE,
        [_info("DELETE"), _add("a", deletes=2), _remove("a", deletes=1)],
    ),
    "delete of whole files": (RowChange.DELETE, [_info("DELETE"), _remove("a"), _remove("b")]),
    "delete of a file and of rows of another": (
        RowChange.DELETE,
        [_info("DELETE"), _remove("a"), _add("b", deletes=1), _remove("b")],
    ),
    "delete by rewriting a file": (
        RowChange.MIXED,
        [_info("DELETE"), _add("b", 2), _remove("a")],
    ),
    "delete with change files": (
        RowChange.MIXED,
        [_info("DELETE"), CDC, _add("b", 2), _remove("a")],
    ),
    "update with change files": (
        RowChange.MIXED,
        [_info("UPDATE"), CDC, _add("b"), _add("a", deletes=1), _remove("a")],
    ),
    "update without change files": (
        RowChange.MIXED,
        [_info("UPDATE"), _add("b", 1), _add("a", deletes=1), _remove("a")],
    ),
    "overwrite": (RowChange.MIXED, [_info("WRITE"), _add("b"), _remove("a")]),
    "restore with a smaller deletion vector": (
        RowChange.MIXED,
        [_info("RESTORE"), _add("a", deletes=1), _remove("a", deletes=2)],
    ),
    "restore with a larger deletion vector, which may be of other rows": (
        RowChange.MIXED,
        [_info("RESTORE"), _add("a", deletes=2), _remove("a", deletes=1)],
    ),
    "restore that removes a file": (RowChange.DELETE, [_info("RESTORE"), _remove("a")]),
    "restore that takes a deletion vector away": (
        RowChange.MIXED,
        [_info("RESTORE"), _add("a"), _remove("a", deletes=2)],
    ),
    "restore of a removed file": (RowChange.APPEND, [_info("RESTORE"), _add("a")]),
    "restore of a removed file with a deletion vector": (
        RowChange.MIXED,
        [_info("RESTORE"), _add("a", deletes=1)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_classify(name: str) -> None:
    """Inserts only, deletes only, nothing, or: the rows have to be looked at."""
    wanted, actions = CASES[name]
    commit = _commit(*actions)
    assert classify(commit) is wanted
    assert commit.changes_schema == (METADATA in actions)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([_info("WRITE")], (0, 0)),
        ([_add("a", 3), _add("b", 4)], (7, 0)),
        ([_add("a", 3), _add("b", None)], (None, 0)),
        ([_add("a", 3, data_change=False)], (0, 0)),
        ([_add("a", deletes=2), _remove("a", deletes=1)], (0, 1)),
        ([_add("b", 2), _removed_rows(5, deletes=1)], (2, 4)),
        ([_add("b", None), _remove("a")], (None, None)),
        # Rows that come back: the deletion vector is smaller, or is one of an earlier version.
        ([_add("a", deletes=1), _remove("a", deletes=2)], (None, None)),
        ([_info("RESTORE"), _add("a", deletes=2), _remove("a", deletes=1)], (None, None)),
    ],
)
def test_rows_changed(
    actions: list[dict[str, Any]], expected: tuple[int | None, int | None]
) -> None:
    """Rows that come and go are counted from the log; None if a file does not say."""
    assert rows_changed(_commit(*actions)) == expected


def test_time_is_the_in_commit_timestamp() -> None:
    """Else the file's own time."""
    assert _commit(_info("WRITE")).time_ms == NOW
    assert _commit({"commitInfo": {"operation": "WRITE"}}).time_ms == NOW + 99
    assert _commit(_add("a")).time_ms == NOW + 99


def test_transactions_domains_and_metadata() -> None:
    """What our own commits carry is read back."""
    commit = _commit(
        {"txn": {"appId": "ctsql:x", "version": 43, "lastUpdated": NOW}},
        {"domainMetadata": {"domain": "a", "configuration": "1", "removed": False}},
        {"domainMetadata": {"domain": "b", "configuration": "", "removed": True}},
        _info("WRITE", userMetadata=json.dumps({"t": 42})),
    )
    assert commit.transaction("ctsql:x") == 43
    assert commit.transaction("ctsql:y") is None
    assert commit.domains == (("a", "1"), ("b", None))
    assert commit.metadata == {"t": 42}


@pytest.mark.parametrize("text", ["not json", "[1]", "3", ""])
def test_metadata_of_others_is_none_of_ours(text: str) -> None:
    """Foreign writers may put any text there."""
    assert _commit(_info("WRITE", userMetadata=text)).metadata == {}


def test_blank_lines_and_unknown_actions_are_passed_over() -> None:
    """A newer protocol may add actions; readers skip those they do not know."""
    text = json.dumps(_add("a")) + "\n\n" + json.dumps({"sidecar": {"path": "s"}}) + "\n"
    commit = parse_commit(0, text, modified_ms=NOW)
    assert [a.path for a in commit.adds] == ["a"]


def test_a_value_may_have_signs_that_end_lines_elsewhere() -> None:
    """Only a line feed ends an action: a partition's value may have U+2028 and NEL."""
    value = "x\u2028\u2029\x85y"
    add = {"add": {"path": "a", "size": 9, "partitionValues": {"p": value}}}
    text = json.dumps(add, ensure_ascii=False) + "\n"
    (file,) = parse_commit(4, text, modified_ms=NOW).adds
    assert file.partition == (("p", value),)


def test_checksum() -> None:
    """Left-out parts are None: not known, which is not the same as empty."""
    parsed = parse_checksum(
        json.dumps(
            {
                "setTransactions": [{"appId": "x", "version": "7"}],
                "domainMetadata": [
                    {"domain": "d", "configuration": "c", "removed": False},
                    {"domain": "e", "configuration": "", "removed": True},
                ],
                "allFiles": [{"path": "f", "size": 1}],
                "numFiles": 1,
            }
        )
    )
    assert parsed["transactions"] == {"x": 7}
    assert parsed["domains"] == {"d": "c"}
    assert list(parsed["files"]) == ["f"]
    assert parsed["files_count"] == 1
    kinds = ("transactions", "domains", "files", "files_count", "table", "protocol")
    assert parse_checksum("{}") == dict.fromkeys(kinds)


OURS = json.dumps(_info("STREAMING UPDATE", userMetadata='{"token": "a", "upper": 7}'))
MOVED = '{"txn": {"appId": "ctsql:x", "version": 7}}'


def _wrote(metrics: dict[str, Any], **more: Any) -> str:
    """The first line of somebody's commit that says how many rows it changes."""
    info = _info("WRITE")
    info["commitInfo"] |= {"operationMetrics": metrics} | more
    return json.dumps(info)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        (OURS[:40], "line 1 is cut off"),
        (f"{OURS}\n{MOVED[:9]}", "line 2 is cut off"),
        (OURS, "it is cut off"),
        (_wrote({"numFiles": "1", "numOutputRows": "2"}), "it is cut off"),
        (_wrote({"numDeletedRows": "1", "numRemovedFiles": "1"}), "it is cut off"),
        (_wrote({"num_added_files": 1, "num_added_rows": 3}), "it is cut off"),
        ("[1]", "line 1 is no action"),
        ('{"add": {"size": 1}}', "not those of a Delta commit"),
        ('{"add": 3}', "not those of a Delta commit"),
        ("\x00\x01", "line 1 is cut off or is no JSON"),
    ],
)
def test_a_damaged_commit_file(text: str, how: str) -> None:
    """It is not taken for a commit that does nothing."""
    with pytest.raises(DamagedCommit, match=how):
        parse_commit(3, text, modified_ms=NOW)


@pytest.mark.parametrize(
    "text",
    [
        _wrote({"numFiles": "1", "numOutputRows": "0"}),
        _wrote({"numRemovedFiles": "3", "numAddedFiles": "1"}),
        _wrote({}),
        _wrote({"numOutputRows": None, "numDeletedRows": "-1"}),
        _wrote({"numOutputRows": "2"}) + "\n" + json.dumps(_add("a")),
        _wrote({"numDeletedRows": "2"}) + "\n" + json.dumps(_remove("a")),
        f"{OURS}\n{MOVED}\n" + json.dumps(_add("a")),
        # A failure that is noted after rows were staged in vain.
        _wrote({"numOutputRows": "2"}, userMetadata='{"token": "a", "lower": 7}'),
    ],
)
def test_a_commit_that_is_whole(text: str) -> None:
    """It says of no row that its actions do not bear out, or it is ours and takes none in."""
    commit = parse_commit(3, text, modified_ms=NOW)
    assert commit.changes_data == ("\n" in text)


def test_kinds_that_are_null_are_none() -> None:
    """Some writers name all kinds of actions in each line."""
    lines = [
        {"commitInfo": {"inCommitTimestamp": None}, "add": None},
        {"commitInfo": None, "add": {"path": "a", "size": 1, "dataChange": True}, "remove": None},
    ]
    commit = parse_commit(1, "\n".join(map(json.dumps, lines)), modified_ms=7)
    assert (commit.time_ms, [add.path for add in commit.adds], commit.removes) == (7, ["a"], ())


PLAIN = {"path": "a%20b.parquet", "size": 9, "partitionValues": {}, "dataChange": False}
STATS = {"numRecords": 5, "minValues": {"k": 1}, "tightBounds": True}
INLINE = {"storageType": "i", "pathOrInlineDv": "wi5b=", "sizeInBytes": 4, "cardinality": 1}


def _file(**more: object) -> DataFile:
    """A file of five rows."""
    return DataFile(json.dumps({"add": {**PLAIN, "stats": json.dumps(STATS), **more}}))


def test_a_file_and_its_vector() -> None:
    """The vector's name tells its place; an inline one has no offset."""
    plain, with_one = _file(), _file(deletionVector=_vector(2))
    assert (plain.path, plain.vector_id, plain.deleted_count) == ("a%20b.parquet", "", 0)
    assert (plain.records_count, plain.rows_count) == (5, 5)
    assert with_one.vector_id == "uab^-aqEH.-t@S}K{vb[*k^@1"
    assert (with_one.records_count, with_one.deleted_count, with_one.rows_count) == (5, 2, 3)
    assert _file(deletionVector=INLINE).vector_id == "iwi5b="


def test_another_vector() -> None:
    """Bounds are no longer tight, the rows change, and all else stays."""
    vector = _vector(2)
    add = json.loads(_file(tags={"ctsql.t": "7"}).with_vector(vector).line)["add"]
    assert json.loads(add.pop("stats")) == {**STATS, "tightBounds": False}
    assert add == {**PLAIN, "tags": {"ctsql.t": "7"}, "dataChange": True, "deletionVector": vector}


def test_a_file_without_statistics() -> None:
    """How many rows there are is not known then."""
    silent = DataFile(json.dumps({"add": PLAIN}))
    assert (silent.records_count, silent.rows_count, silent.statistics) == (None, None, None)
    assert silent.with_vector(_vector(2)).statistics is None
