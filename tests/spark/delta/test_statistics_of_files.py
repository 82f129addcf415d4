"""Spark skips no row of a file that ctsql writes, by whatever it is compared with."""

from collections.abc import Iterator

import pytest

from ctsql.api import Connection, connect
from tests.conftest import TEST_MASTER
from tests.helpers.edge_values import (
    KINDS,
    Kind,
    Twins,
    conditions_of,
    ids_by_condition,
    make_twins,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """Both tables, for all tests here."""
    return make_twins(tmp_path_factory.mktemp("twins"))


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A connection, for all tests here."""
    opened = connect(str(tmp_path_factory.mktemp("edges") / "warehouse"), master=TEST_MASTER)
    yield opened
    opened.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.column)
def test_spark_finds_every_row(con: Connection, twins: Twins, kind: Kind) -> None:
    """By every comparison."""
    spark = con.spark
    conditions = conditions_of(kind, kind.spark, "{v} <=> {x}")
    shown = ", ".join(f"({c}) AS c{i}" for i, c in enumerate(conditions))
    bare = f"delta.`{twins.bare}`"
    rows = spark.sql(f"SELECT id, {shown} FROM {bare}").collect()
    expected = ids_by_condition(rows, conditions)
    written = f"delta.`{twins.written}`"
    parts = [f"SELECT {i} AS c, id FROM {written} WHERE {c}" for i, c in enumerate(conditions)]
    found: dict[str, list[int]] = {c: [] for c in conditions}
    for number, id_ in spark.sql(" UNION ALL ".join(parts)).collect():
        found[conditions[number]].append(id_)
    assert {c: sorted(ids) for c, ids in found.items()} == expected
    ends = f"SELECT min({kind.column}), max({kind.column}), count({kind.column}) FROM "
    told = [
        spark.sql(f"SELECT to_json(struct(*)) FROM ({ends}{t})").collect() for t in (written, bare)
    ]
    assert told[0] == told[1]
