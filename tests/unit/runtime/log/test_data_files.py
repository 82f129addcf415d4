"""What an add action says of a file, and what it says with another deletion vector."""

import json

from ctsql.runtime.log.actions import DataFile

PLAIN = {"path": "a%20b.parquet", "size": 9, "partitionValues": {}, "dataChange": False}
STATS = {"numRecords": 5, "minValues": {"k": 1}, "tightBounds": True}
VECTOR = {
    "storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4,
    "sizeInBytes": 40, "cardinality": 2,
}  # fmt: skip


def file(**more: object) -> DataFile:
    """A file of five rows."""
    return DataFile(json.dumps({"add": {**PLAIN, "stats": json.dumps(STATS), **more}}))


def test_a_file_without_a_vector() -> None:
    """All of its rows are live."""
    plain = file()
    assert (plain.path, plain.vector_id, plain.deleted_count) == ("a%20b.parquet", "", 0)
    assert (plain.records_count, plain.rows_count) == (5, 5)


def test_a_file_with_a_vector() -> None:
    """The vector's name tells its place; an inline one has no offset."""
    with_one = file(deletionVector=VECTOR)
    assert with_one.vector_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert (with_one.records_count, with_one.deleted_count, with_one.rows_count) == (5, 2, 3)
    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=", "sizeInBytes": 4, "cardinality": 1}
    assert file(deletionVector=inline).vector_id == "iwi5b="


def test_another_vector() -> None:
    """Bounds are no longer tight, the rows change, and all else stays."""
    changed = file(tags={"ctsql.t": "7"}).with_vector(VECTOR)
    add = json.loads(changed.line)["add"]
    assert json.loads(add.pop("stats")) == {**STATS, "tightBounds": False}
    assert add == {**PLAIN, "tags": {"ctsql.t": "7"}, "dataChange": True, "deletionVector": VECTOR}


def test_without_statistics() -> None:
    """How many rows there are is not known then."""
    silent = DataFile(json.dumps({"add": PLAIN}))
    assert (silent.records_count, silent.rows_count, silent.statistics) == (None, None, None)
    assert silent.with_vector(VECTOR).statistics is None
