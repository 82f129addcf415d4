"""Results: fetching, what is known when, and a lazy frame touched as little as possible."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row, types as T

from ctsql.catalog.errors import CtsqlError, error
from ctsql.results.result import Result
from ctsql.runtime.spark.internals import partitions


class FakeFrame:
    """The part of a DataFrame that a result uses; counts what is computed."""

    def __init__(self, count: int, fails_at: int | None = None) -> None:
        kind = SimpleNamespace(simpleString=lambda: "int")
        self.schema = SimpleNamespace(fields=[SimpleNamespace(name="n", dataType=kind)])
        self.count, self.fails_at, self.computed_count = count, fails_at, 0

    def rows(self) -> Iterator[tuple[int]]:
        for n in range(self.count):
            if n == self.fails_at:
                raise RuntimeError("Spark's own")
            self.computed_count += 1
            yield (n,)

    def collect(self) -> list[tuple[int]]:
        return list(self.rows())

    def take(self, count: int) -> list[tuple[int]]:
        return [(n,) for n in range(min(count, self.count))]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "partition_rows", FakeFrame.rows)


@contextmanager
def converter() -> Iterator[None]:
    try:
        yield
    except RuntimeError as problem:
        raise error("SPARK_ERROR", message="m", detail="", hint="", cause=problem) from problem


class NestedFrame:
    """A DataFrame of one row as PySpark gives it: instants in this machine's zone, without it."""

    def __init__(self, *values: tuple[str, object]) -> None:
        self.schema = SimpleNamespace(
            fields=[
                SimpleNamespace(
                    name=f"c{i}", dataType=SimpleNamespace(simpleString=lambda kind=kind: kind)
                )
                for i, (kind, _) in enumerate(values)
            ]
        )
        self.row = tuple(value for _, value in values)

    def collect(self) -> list[tuple[object, ...]]:
        return [self.row]


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine is in Los Angeles, where the clock is put back once a year."""
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_away")
def test_instants_within_values_have_their_offset() -> None:
    """As those that stand alone: nobody else knows the zone of this machine."""
    here = datetime(2024, 11, 3, 1, 30)
    first, second = (datetime(2024, 11, 3, hour, 30, tzinfo=UTC) for hour in (8, 9))
    struct = "struct<t:timestamp,n:struct<u:timestamp,timestamp:timestamp_ntz>>"
    frame: Any = NestedFrame(
        ("array<timestamp>", [here, here.replace(fold=1), None]),
        ("map<timestamp,array<timestamp>>", {here: [here]}),
        (struct, Row(t=here, n=Row(u=None, timestamp=here))),
        ("array<timestamp_ntz>", [here]),
    )
    ((array, pairs, row, plain),) = Result.of_dataframe(frame, convert=converter).fetchall()
    assert array == [first, second, None]
    assert array[0].tzinfo is UTC
    assert pairs == {first: [first]}
    assert row == Row(t=first, n=Row(u=None, timestamp=here))
    assert (row.t, row.n.timestamp) == (first, here)
    assert plain == [here]
    late: Any = NestedFrame(("array<timestamp>", [datetime.max]))
    with pytest.raises(CtsqlError, match="DATA_ERROR"):
        Result.of_dataframe(late, convert=converter).fetchall()


def of(frame: FakeFrame) -> Result:
    lazy: Any = frame
    return Result.of_dataframe(lazy, convert=converter)


def test_iterating_does_not_compute_everything() -> None:
    """The first row costs a chunk at most, and the count is unknown until the end."""
    frame = FakeFrame(5000)
    result = of(frame)
    assert result.fetchone() == (0,)
    assert frame.computed_count <= 1000
    assert (result.rowcount, result.status) == (-1, "SELECT")
    assert len(list(result)) == 4999
    assert (result.rowcount, result.status) == (5000, "SELECT 5000")
    assert result.fetchone() is None


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2000])
def test_streaming_gives_each_row_once(count: int) -> None:
    """Also at the edges of a chunk."""
    assert list(of(FakeFrame(count))) == [(n,) for n in range(count)]
    assert of(FakeFrame(count)).fetchall() == [(n,) for n in range(count)]


def test_an_error_while_rows_come_is_converted() -> None:
    """Spark's exception is the cause, never what is raised."""
    for use in (list, Result.fetchall):
        with pytest.raises(CtsqlError, match="SPARK_ERROR") as caught:
            use(of(FakeFrame(10, fails_at=3)))
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_fetchmany_and_fetchall_go_on_where_the_last_stopped() -> None:
    """As PEP 249 has it."""
    result = of(FakeFrame(5))
    assert result.fetchmany() == [(0,)]
    assert result.fetchmany(2) == [(1,), (2,)]
    assert result.fetchall() == [(3,), (4,)]
    assert result.fetchall() == []


def test_a_statement_without_rows_says_so_when_fetched() -> None:
    """It has a status and a count; fetching is an error of the caller's."""
    result = Result.of_status("INSERT 0 3", 3)
    assert (result.has_rows, result.description, result.rowcount) == (False, None, 3)
    with pytest.raises(CtsqlError, match="INVALID_USAGE"):
        result.fetchall()


def test_description_has_seven_items_a_column() -> None:
    """Name and type are given."""
    result = Result.of_rows(["k"], ["int"], [(1,)])
    assert result.description == [("k", "int", None, None, None, None, None)]
    assert result.to_arrow().to_pydict() == {"k": [1]}
    assert result.fetchall() == [(1,)]


@pytest.mark.parametrize("name", ["a,b", "a:b", "a`b", "<", "t"])
def test_instants_within_structs_of_odd_names(name: str) -> None:
    """They have their offset, whatever the fields are called."""
    inside = T.StructType().add(name, T.TimestampType()).add("n", T.IntegerType())
    frame: Any = FakeFrame(1)
    frame.schema = T.StructType().add("s", inside)
    instant = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    value = Row(name, "n")(instant.astimezone().replace(tzinfo=None), 7)
    frame.collect = lambda: [(value,)]
    ((found,),) = Result.of_dataframe(frame).fetchall()
    assert tuple(found) == (instant, 7)
    assert found[0].tzinfo is UTC
