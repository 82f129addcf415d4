"""delta-rs and ctsql itself skip no row of a file that ctsql writes."""

from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyroaring import BitMap64
from pyspark.sql import types as T

from ctsql.runtime.delta.keyed_scan import KeyRanges
from ctsql.runtime.delta.parquet.parquet_reader import KeySet, NumberRange, ScannedFile, find
from ctsql.runtime.delta.stores.file_stores import LOCAL
from ctsql.runtime.rows.types import has_equality_in_files, has_read_bounds
from tests.helpers.edge_values import (
    KINDS,
    SCHEMA,
    Kind,
    Twins,
    array_of,
    conditions_of,
    ids_by_condition,
    make_twins,
)

pytestmark = pytest.mark.thorough
EQUAL_NULLS = "{v} IS NOT DISTINCT FROM {x}"


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """Both tables, for all tests here."""
    return make_twins(tmp_path_factory.mktemp("twins"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.column)
def test_delta_rs_finds_every_row(twins: Twins, kind: Kind) -> None:
    """By every comparison."""
    conditions = conditions_of(kind, kind.rust, EQUAL_NULLS)
    reader = QueryBuilder()
    for name, place in (("written", twins.written), ("bare", twins.bare)):
        reader = reader.register(name, DeltaTable(place))
    shown = ", ".join(f"({c}) AS c{i}" for i, c in enumerate(conditions))
    held = pa.table(reader.execute(f"SELECT id, {shown} FROM bare").read_all())
    rows = zip(*(column.to_pylist() for column in held.columns), strict=True)
    expected = ids_by_condition(rows, conditions)
    found = {}
    for condition in conditions:
        part = pa.table(reader.execute(f"SELECT id FROM written WHERE {condition}").read_all())
        found[condition] = sorted(part["id"].to_pylist())
    assert found == expected


def _scanned(
    twins: Twins, place: Path, kind: Kind, values: list[object] | None
) -> list[ScannedFile]:
    """The files that may hold a value, by their statistics in the log."""
    files = twins.files(place)
    if values is not None and has_read_bounds(SCHEMA[kind.column].dataType):
        ranges = KeyRanges({kind.column: values})  # type: ignore[dict-item]
        files = [file for file in files if ranges.may_hold(file[1])]
    return [
        ScannedFile(path, LOCAL, path, Path(path).stat().st_size, BitMap64()) for path, _ in files
    ]


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if has_equality_in_files(SCHEMA[kind.column].dataType)],
    ids=lambda kind: kind.column,
)
def test_ctsql_finds_every_row(twins: Twins, kind: Kind) -> None:
    """By keys, NULL among them, and by ranges of whole numbers."""
    columns = T.StructType([SCHEMA["id"], SCHEMA[kind.column]])
    for values in [[value] for value in kind.values] + [[kind.values[0], None], [None]]:
        keys = KeySet({kind.column: pa.chunked_array([array_of(kind, values)])}, nulls_equal=True)
        known = None if None in values else values
        found = [
            find(_scanned(twins, place, kind, known), columns, [keys], rows_max=10_000)["id"]
            for place in (twins.written, twins.bare)
        ]
        assert sorted(found[0].to_pylist()) == sorted(found[1].to_pylist()) != []
    if isinstance(SCHEMA[kind.column].dataType, T.IntegralType):
        for after, until in combinations([*kind.values, None], 2):
            wanted = NumberRange(kind.column, after, until)
            found = [
                find(_scanned(twins, place, kind, None), columns, [wanted], rows_max=10_000)["id"]
                for place in (twins.written, twins.bare)
            ]
            assert sorted(found[0].to_pylist()) == sorted(found[1].to_pylist())
