"""How two versions of a table's columns differ, and what of it changes rows."""

import json
from typing import Any

import pytest

from ctsql.runtime.log.table_metadata import PHYSICAL, TableMetadata, compare_columns, fits

MAPPED = {"delta.columnMapping.mode": "name"}


def _field(name: str, type_: Any = "integer", physical: str = "", **told: Any) -> dict[str, Any]:
    metadata = {**told, **({PHYSICAL: physical} if physical else {})}
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def _struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def _table(*fields: dict[str, Any], parts: tuple[str, ...] = (), **told: Any) -> TableMetadata:
    return TableMetadata(
        {
            "id": "x",
            "schemaString": json.dumps(_struct(*fields)),
            "partitionColumns": list(parts),
            "configuration": told,
        }
    )


K, V = _field("k"), _field("v")
BEFORE = _table(K, V)
MORE, ANEW = _field("c", physical="p3"), _field("b", physical="p9")
NESTED = _field("n", _struct(_field("a", physical="p1"), _field("b", physical="p2")), "n")

PARTS = NESTED["type"]["fields"]
NESTED_MORE = _table(_field("n", _struct(*PARTS, MORE), "n"))
NESTED_ANEW = _table(_field("n", _struct(PARTS[0], ANEW), "n"))
NAMED = _table(_field("k", physical="k"), _field("v", physical="v"))
SWAPPED = _table(_field("k", physical="v"), _field("v", physical="k"))

CASES = [
    ("the same", BEFORE, _table(K, V), {}),
    ("a comment", BEFORE, _table(K, _field("v", comment="it")), {}),
    ("a property", BEFORE, _table(K, V, **{"delta.appendOnly": "true"}), {}),
    ("NOT NULL", BEFORE, _table(K, {**V, "nullable": False}), {}),
    ("another order", BEFORE, _table(V, K), {}),
    ("names are mapped", BEFORE, NAMED, {"moved_columns": ("k", "v")}),
    ("a partition", BEFORE, _table(K, V, parts=("k",)), {"moved_columns": ("k",)}),
    ("added", BEFORE, _table(K, V, _field("x")), {"added_columns": ("x",)}),
    ("dropped", BEFORE, _table(K), {"removed_columns": ("v",)}),
    ("widened", BEFORE, _table(K, _field("v", "long")), {"widened_columns": ("v",)}),
    ("narrowed", _table(K, _field("v", "long")), BEFORE, {"lossy_columns": ("v",)}),
    ("to a text", BEFORE, _table(K, _field("v", "string")), {"lossy_columns": ("v",)}),
    (
        "renamed",
        BEFORE,
        _table(K, _field("w", physical="v")),
        {"removed_columns": ("v",), "added_columns": ("w",)},
    ),
    ("dropped and added", BEFORE, _table(K, _field("v", physical="col-1")), {"other": ("v",)}),
    ("swapped", BEFORE, SWAPPED, {"other": ("k", "v")}),
    ("spelled otherwise", BEFORE, _table(K, _field("V", physical="v")), {"moved_columns": ("V",)}),
    ("a nested one more", _table(NESTED), NESTED_MORE, {"widened_columns": ("n",)}),
    ("a nested one anew", _table(NESTED), NESTED_ANEW, {"other": ("n",)}),
]


@pytest.mark.parametrize(
    ("old", "new", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_differences(old: TableMetadata, new: TableMetadata, expected: dict[str, Any]) -> None:
    """What a change of the metadata does to each column."""
    found = compare_columns(old, new)
    names = (
        "removed_columns",
        "added_columns",
        "other",
        "lossy_columns",
        "widened_columns",
        "moved_columns",
    )
    assert {n: getattr(found, n) for n in names if getattr(found, n)} == expected
    assert bool(found) == bool(expected)
    assert found.changes_rows == any(
        n in expected for n in ("removed_columns", "other", "lossy_columns")
    )


def test_only_columns_that_are_read_count() -> None:
    """Who does not read a column does not mind what becomes of it."""
    after = _table(K, _field("v", "string"), _field("x"))
    assert not compare_columns(BEFORE, after, ["K"])
    assert compare_columns(BEFORE, after, ["k", "v"]).lossy_columns == ("v",)
    assert not compare_columns(_table(K), _table(K), ["v"]), "it was not there before either"


def test_a_file_is_read_alike() -> None:
    """Equal layouts for what changes no reading, others for what does."""
    same = [_table(K, _field("v", comment="it")), _table(K, {**V, "nullable": False})]
    same += [_table(K, _field("v", **{"delta.identity.highWaterMark": 7}))]
    assert {m.layout for m in same} == {BEFORE.layout}
    others = [_table(K, V, parts=("k",)), _table(K, V, **MAPPED), _table(K, _field("v", "long"))]
    others += [_table(K, _field("v", physical="w")), _table(K, V, _field("x"))]
    assert BEFORE.layout not in {m.layout for m in others}


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("byte", "integer", True),
        ("integer", "double", True),
        ("long", "double", False),
        ("integer", "decimal(10,0)", True),
        ("integer", "decimal(10,1)", False),
        ("decimal(5,2)", "decimal(6,3)", True),
        ("decimal(5,2)", "decimal(6,1)", False),
        ("float", "double", True),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("string", "binary", False),
        (
            {"type": "array", "elementType": "integer"},
            {"type": "array", "elementType": "long"},
            True,
        ),
        ({"type": "array", "elementType": "long"}, "long", False),
        (
            {"type": "map", "keyType": "string", "valueType": "long"},
            {"type": "map", "keyType": "string", "valueType": "integer"},
            False,
        ),
    ],
)
def test_types_that_hold_the_values_of_others(old: Any, new: Any, wanted: bool) -> None:
    """Only where no two different values become one, and none is lost."""
    assert fits(old, new) is wanted
