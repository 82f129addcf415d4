"""What Python has gets in and out: frames, tuples, dicts, parameters, transactions."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ctsql
from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError, InterfaceError
from tests.helpers.table_folder import folder, versions

pytestmark = pytest.mark.spark


@pytest.fixture
def table(con: Connection) -> Connection:
    """A table of items."""
    con.execute("CREATE TABLE t (id INT, name STRING, price DECIMAL(10, 2))")
    return con


def _rows(con: Connection, sql: str = "SELECT * FROM t") -> list[tuple[Any, ...]]:
    return sorted(con.execute(sql).fetchall(), key=repr)


class _Stream:
    """What another library gives: an Arrow stream, and nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        found: object = pa.table({"id": [1, 2]}).__arrow_c_stream__(requested_schema)
        return found


def _given(con: Connection) -> Iterator[Any]:
    columns = {"ID": [1, 2], "name": ["pen", None]}
    frame = pd.DataFrame(columns)
    yield frame
    yield frame[frame.ID > 0]  # with an index of numbers
    yield frame.set_index("ID")
    yield pa.table(columns)
    yield pa.table(columns).to_reader()
    yield pa.table(columns).to_batches()[0]
    yield con.spark.createDataFrame(frame)
    yield [{"ID": 1, "name": "pen"}, {"ID": 2}]
    yield ({"id": i, "name": name} for i, name in ((1, "pen"), (2, None)))


def test_append_takes_what_holds_rows(table: Connection) -> None:
    """By the names of columns, in one commit each; columns that are not there get NULL."""
    for turn, rows in enumerate(_given(table), start=1):
        before = len(versions(folder(table, "t")))
        done = table.append("t", rows)
        assert (done.rowcount, done.status) == (2, "INSERT 0 2"), rows
        assert len(versions(folder(table, "t"))) == before + 1
        assert _rows(table) == [(1, "pen", None)] * turn + [(2, None, None)] * turn, rows
    assert table.append("default.t", _Stream()).rowcount == 2
    assert table.append("t", []).rowcount == 0


def test_tuples_get_the_types_of_the_table(con: Connection) -> None:
    """Floats for decimals, naive datetimes in UTC, dicts for maps and structs."""
    con.execute(
        "CREATE TABLE k (d DECIMAL(10, 2), t TIMESTAMP, n TIMESTAMP_NTZ, a DATE, "
        "m MAP<STRING, INT>, s STRUCT<x: INT, y: STRING>, l ARRAY<BIGINT>, b BINARY)"
    )
    at = datetime(2026, 1, 2, 3, 4, 5)
    row = (1.5, at, at, date(2026, 1, 2), {"a": 1}, {"y": "z", "x": 1}, [1, None], b"\x00")
    assert con.append("k", [row, (None,) * 8]).rowcount == 2
    found = con.execute("SELECT * FROM k WHERE d IS NOT NULL").fetchall()
    assert [tuple(found[0])] == [
        (Decimal("1.50"), at.replace(tzinfo=UTC), at, date(2026, 1, 2), {"a": 1}, (1, "z"),
         [1, None], b"\x00")
    ]  # fmt: skip


REFUSED: list[tuple[Any, str, str]] = [
    ([(1, "a")], "COLUMN_COUNT_MISMATCH", "2 value(s)"),
    ([{"id": 1, "nam": "a"}], "UNKNOWN_COLUMN", '"name"'),
    ([{"id": 1, "ID": 2}], "DUPLICATE_COLUMN", "id"),
    (pa.table({"id": [1], "more": [1]}), "UNKNOWN_COLUMN", "more"),
    ([("x", "a", 1)], "DATA_ERROR", "'x'"),
    ([(2**40, "a", 1)], "DATA_ERROR", "overflow"),
    ([(1, "a", 1), (object(), "a", 1)], "DATA_ERROR", "id"),
    (pa.table({"id": [[1]]}), "TYPE_MISMATCH", "id"),
    ([(1, "a", Decimal("1E-40"))], "INVALID_USAGE", "price decimal256(40, 40)"),
    (pa.table({"id": pa.array([1], pa.duration("ns"))}), "DATA_ERROR", "lose data"),
    (5, "INVALID_USAGE", "int"),
    ("abc", "INVALID_USAGE", "str"),
    (["abc"], "INVALID_USAGE", "str"),
    ([1], "INVALID_USAGE", "int"),
]


def test_append_refuses_what_does_not_fit(table: Connection) -> None:
    """Nothing is committed; outputs and read-only connections are refused as by INSERT."""
    before = versions(folder(table, "t"))
    for rows, condition, word in REFUSED:
        with pytest.raises(CtsqlError) as refused:
            table.append("t", rows)
        assert refused.value.condition == condition, refused.value
        assert word in str(refused.value)
        assert versions(folder(table, "t")) == before, rows
    table.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    with pytest.raises(CtsqlError, match="OUTPUT_OWNED"):
        table.append("v", [(1,)])
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
        table.append("nope", [(1,)])
    with pytest.raises(CtsqlError, match="is no name"):
        table.append("EXTENDED t", [(1,)])
    reader = Connection(table.warehouse, spark=table.spark, read_only=True)
    with pytest.raises(CtsqlError, match="READ_ONLY_MODE"):
        reader.append("t", [(1, "a", 1)])
    reader.close()


def test_register(table: Connection) -> None:
    """A name for rows, until it is taken back; not in definitions, not over an object."""
    table.register("given", pd.DataFrame({"id": [3, 4]}))
    try:
        assert _rows(table, "SELECT id + 1 FROM given") == [(4,), (5,)]
        table.execute("INSERT INTO t (id) SELECT id FROM given")
        assert _rows(table, "SELECT id FROM t") == [(3,), (4,)]
        table.register("given", [{"id": 9}, {"id": None}])
        assert _rows(table, "SELECT * FROM given") == [(9,), (None,)]
        with pytest.raises(CtsqlError, match="NOT_DURABLE"):
            table.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM given")
        with pytest.raises(CtsqlError, match="OBJECT_EXISTS"):
            table.register("t", pa.table({"id": [9]}))
        with pytest.raises(CtsqlError, match="INVALID_NAME"):
            table.register("default.given", pa.table({"id": [9]}))
    finally:
        table.unregister("given")
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
        table.execute("SELECT * FROM given")
    for name in ("`a ``b`", "select_1", "`order`"):
        table.register(name, [{"id": 7}])
        assert _rows(table, f"SELECT id FROM {name}") == [(7,)]
        table.unregister(name)
        with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
            table.execute(f"SELECT * FROM {name}")


def test_columns_that_are_not_given_get_their_default(table: Connection) -> None:
    """As of an INSERT that does not name them."""
    table.execute("CREATE TABLE d (a INT, b INT DEFAULT 7, c TEXT)")
    table.append("d", [{"a": 1}])
    table.executemany("INSERT INTO d (a) VALUES (?)", [(2,)])
    table.writer("d").compare_and_append([{"a": 3}], expected_upper=0, new_upper=1)
    assert _rows(table, "SELECT * FROM d") == [(n, 7, None) for n in (1, 2, 3)]


def test_functions_of_the_session(table: Connection) -> None:
    """Queries and INSERT call them; definitions are refused with the reason."""
    table.spark.udf.register("ct_shout", lambda text: text.upper(), "string")
    table.execute("INSERT INTO t (name) SELECT ct_shout('pen')")
    assert table.execute("SELECT ct_shout(name || '!') FROM t").scalar() == "PEN!"
    table.execute("CREATE TABLE loud AS SELECT ct_shout('a') AS a")
    for definition in (
        "CREATE MATERIALIZED VIEW v AS SELECT ct_shout(name) AS n FROM t",
        "CREATE CONTINUAL TASK c (n STRING) ON INPUT t AS ("
        "INSERT INTO c SELECT ct_shout(name) FROM t)",
    ):
        with pytest.raises(CtsqlError, match="function ct_shout cannot be read") as refused:
            table.execute(definition)
        assert refused.value.condition == "NOT_DURABLE"
    with pytest.raises(CtsqlError, match="UNKNOWN_FUNCTION"):
        table.execute("CREATE MATERIALIZED VIEW v AS SELECT ct_whisper(name) AS n FROM t")


def test_executemany_is_one_commit(table: Connection) -> None:
    """An INSERT of parameters, and any other statement; a failure leaves nothing."""
    log = folder(table, "t")
    before = len(versions(log))
    done = table.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i, "a", i) for i in range(50)])
    assert (done.rowcount, len(versions(log))) == (50, before + 1)
    named = [{"k": 1, "to": "b"}, {"k": 2, "to": "c"}]
    with table.cursor() as cursor:
        cursor.executemany("UPDATE t SET name = :to WHERE id = :k", named)
        assert cursor.rowcount == 2
        cursor.executemany("INSERT INTO t (name, id) VALUES (:to, :k)", named)
    assert len(versions(log)) == before + 3
    assert _rows(table, "SELECT name FROM t WHERE id IN (1, 2)") == [("b",), ("b",), ("c",), ("c",)]
    with pytest.raises(CtsqlError, match="DATA_ERROR"):
        table.executemany("DELETE FROM t WHERE id = CAST(? AS INT)", [("3",), ("x",)])
    assert table.execute("SELECT count(*) FROM t WHERE id = 3").scalar() == 1
    assert not table.in_transaction
    with pytest.raises(CtsqlError, match="executemany runs one"):
        table.executemany("SELECT ?", [(1,)])
    assert table.executemany("DELETE FROM t WHERE id = ?", []).rowcount == 0


def test_named_parameters(table: Connection) -> None:
    """A dict for :name; a value that is missing is named."""
    table.execute("INSERT INTO t VALUES (:id, :name, :price)", {"id": 1, "name": ":x?", "price": 2})
    query = "SELECT name FROM t WHERE id = :id AND id >= :id LIMIT :n"
    assert table.execute(query, {"id": 1, "n": 5, "more": 0}).fetchall() == [(":x?",)]
    for parameters in ({"id": 1}, [1, 2], None):
        with pytest.raises(CtsqlError, match=r"no value is given for :|parameters are a list"):
            table.execute(query, parameters)
    with pytest.raises(CtsqlError, match="a dict gives values for :name"):
        table.execute("SELECT ?", {"id": 1})
    path = "SELECT parse_json('{\"a\": 5}') AS v"
    assert table.execute(f"SELECT CAST(v:a AS INT) FROM ({path})").scalar() == 5


def _fail_in(con: Connection, block: AbstractContextManager[object]) -> None:
    with block:
        con.append("t", [(3, "a", 1)])
        con.append("nope", [(3, "a", 1)])


def test_transaction_as_a_block(table: Connection) -> None:
    """Committed at the end, rolled back by an exception; a connection's own block commits."""
    with table.transaction():
        table.append("t", [(1, "a", 1)])
        table.execute("INSERT INTO t (id) VALUES (2)")
        assert table.in_transaction
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
        _fail_in(table, table.transaction())
    assert _rows(table, "SELECT id FROM t") == [(1,), (2,)]
    with Connection(table.warehouse, spark=table.spark) as other:
        other.begin()
        other.execute("INSERT INTO t (id) VALUES (4)")
    other = Connection(table.warehouse, spark=table.spark)
    other.begin()
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
        _fail_in(other, other)
    with pytest.raises(InterfaceError):
        other.execute("SELECT 1")
    assert _rows(table, "SELECT id FROM t") == [(1,), (2,), (4,)]


def test_results_as_other_things(table: Connection) -> None:
    """A value, dicts, an Arrow stream, a table of HTML that leaves the rows to be read."""
    table.append("t", [(i, "<b>", None) for i in range(30)])
    query = "SELECT id, name AS ID FROM t ORDER BY id"
    assert table.execute("SELECT max(id) FROM t").scalar() == 29
    assert table.execute("SELECT id FROM t WHERE false").scalar() is None
    assert table.execute(query).to_dicts()[:1] == [{"id": 0, "ID": "<b>"}]
    assert pa.table(table.execute(query)).num_rows == 30
    result = table.execute(query)
    assert repr(result) == "<Result (id int, ID string)>"
    shown = result._repr_html_() or ""
    assert "<td>&lt;b&gt;</td>" in shown
    assert (shown.count("<tr>"), "the first 20 rows" in shown) == (21, True)
    assert len(result.fetchall()) == 30
    made = table.execute("INSERT INTO t (id) VALUES (1)")
    assert (repr(made), made._repr_html_()) == ("<Result INSERT 0 1>", None)


def test_changes_have_the_types_of_the_query(con: Connection) -> None:
    """As Arrow, a subscription's columns have the types that the query's have."""
    con.execute(
        "CREATE TABLE k (a ARRAY<INT>, m MAP<STRING, INT>, d DECIMAL(5, 2), v VARIANT);"
        "INSERT INTO k VALUES (array(1), map('a', 1), 1.5, parse_json('[1]')),"
        "  (array(), NULL, 2, NULL)"
    )
    query = "SELECT * FROM k ORDER BY d"
    rows = con.execute(query).to_arrow()
    changes = con.execute("SUBSCRIBE TO k UP TO NOW").to_arrow().sort_by("d")
    assert changes.drop_columns(["t", "diff"]).to_pylist() == rows.to_pylist()
    assert changes.schema.types[2:] == rows.schema.types


@pytest.mark.parametrize("query", ["SELECT array() AS a", "SELECT map() AS a"])
def test_rows_that_arrow_cannot_hold(con: Connection, query: str) -> None:
    """They can be fetched still."""
    with pytest.raises(CtsqlError, match="Arrow cannot hold the rows"):
        con.execute(query).to_arrow()
    assert len(con.execute(query).fetchall()) == 1


def test_polars(con: Connection) -> None:
    """Frames of Polars go in and out with every type that Spark has; others are refused."""
    con.execute(
        "CREATE TABLE p (i INT, u BIGINT, d DECIMAL(10, 2), t TIMESTAMP, n TIMESTAMP_NTZ, a DATE, "
        "s STRING, c STRING, b BINARY, f DOUBLE, o BOOLEAN, l ARRAY<BIGINT>, r STRUCT<x: INT>)"
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 6)
    row = {
        "i": 1, "u": 2**32 - 1, "d": Decimal("1.50"), "t": at.replace(tzinfo=UTC), "n": at,
        "a": date(2026, 1, 2), "s": "é", "c": "kind", "b": b"\x00", "f": 0.5, "o": True,
        "l": [1, None], "r": {"x": 7},
    }  # fmt: skip
    frame = pl.DataFrame(
        [row, dict.fromkeys(row)],
        schema_overrides={"i": pl.Int32, "u": pl.UInt32, "c": pl.Categorical},
    )
    assert con.append("p", frame).rowcount == 2
    assert con.append("p", frame.lazy().collect().slice(0, 0)).rowcount == 0
    query = "SELECT * FROM p ORDER BY i NULLS LAST"
    for found in (con.execute(query).to_polars(), pl.DataFrame(con.execute(query))):
        assert found.to_dicts() == [row, dict.fromkeys(row)]
        assert found.schema["t"] == pl.Datetime("us", "UTC")
    con.register("given", frame)
    con.execute("INSERT INTO p SELECT * FROM given")
    assert con.execute("SELECT count(*) FROM p WHERE r.x = 7").to_polars().item() == 2
    wide = pa.table({"d": pa.array([Decimal(1)], pa.decimal256(40, 2))})
    for refused in (pl.DataFrame({"i": [1]}).lazy(), wide):
        with pytest.raises(CtsqlError, match="INVALID_USAGE"):
            con.append("p", refused)


def test_names_are_offered() -> None:
    """``dir(ctsql)``, which Tab asks, has what is fetched on first use."""
    assert {"connect", "execute", "Error", "Subscription", "Row"} <= set(dir(ctsql))
    assert ctsql.Subscription.__name__ == "Subscription"
