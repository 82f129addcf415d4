"""The result of one statement: rows that are computed on demand, rows in memory, or none.

A query's result has a lazy DataFrame. Iterating computes one partition at a time, into a temporary
file; ``fetchall`` and ``to_arrow`` collect it in one job. Rows can be taken once by iterating or
fetching; ``to_arrow``, ``to_pandas`` and ``to_spark`` always return the whole result.

Source: PEP 249 for ``description``, ``rowcount`` and the fetch methods.
No import of Spark here: a prompt must not wait for it.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from ctsql.catalog.errors import CtsqlError, error, misuse
from ctsql.catalog.names import backtick
from ctsql.results import conversions
from ctsql.results.conversions import Row as Row
from ctsql.results.values import holds_entries, holds_instants, of_python

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn, DataFrame
    from pyspark.sql.types import DataType

Convert = Callable[[], contextlib.AbstractContextManager[object]]
CursorDescription = list[tuple[str, str, None, None, None, None, None]]


class LiveBatch(Protocol):
    """Rows that were delivered together."""

    def rows(self) -> Iterator[Row]:
        """The rows, with the result's columns."""

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table."""


class Live(Protocol):
    """The source of an unbounded result: a subscription."""

    def batches(self) -> Iterator[LiveBatch]:
        """The rows as they are delivered; waits for more."""

    def stop(self) -> None:
        """End the iteration; may be called from another thread."""


_SHOWN_ROWS = 20  # rows of a result that a notebook shows
_CHUNK_ROWS = 1000  # rows of one ``convert`` block, which costs calls of the JVM


class Result:
    """One statement's result; build it with one of the class methods.

    Attributes:
        columns: names, empty for a statement without rows.
        types: their Spark type names (``int``, ``decimal(10,2)``, ``array<string>``).
        arraysize: the default size of ``fetchmany``.
        live: the source of the rows of an unbounded result.
        text_end: if the last column is a statement or plan to copy, the text after it.
        notices: advice for the author of the statement, each with its place.
    """

    def __init__(
        self,
        columns: Sequence[str],
        types: Sequence[str],
        *,
        rows: list[Row] | None = None,
        frame: "DataFrame | None" = None,
        convert: Convert = contextlib.nullcontext,
        status: str | None = None,
        status_verb: str = "SELECT",
        rowcount: int = -1,
    ) -> None:
        self.columns = list(columns)
        self.types = list(types)
        self.arraysize = 1
        self.live: Live | None = None
        self.text_end: str | None = None
        self.notices: list[str] = []
        self._rows = rows
        self._frame = frame
        self._convert = convert
        self._status = status
        self._status_verb = status_verb
        self._rowcount = rowcount
        self._cursor: Iterator[Row] | None = None
        self._fetched_count = 0

    @classmethod
    def of_dataframe(
        cls,
        df: "DataFrame",
        *,
        status_verb: str = "SELECT",
        convert: Convert = contextlib.nullcontext,
    ) -> "Result":
        """A result that is computed on demand.

        Args:
            status_verb: the beginning of ``status``, before the number of rows.
            convert: makes a context manager for each call of Spark.
        """
        from ctsql.planner.lowering.spark_types import type_name

        with convert():
            fields = df.schema.fields
        names = [field.name for field in fields]
        types = [type_name(field.dataType) for field in fields]
        return cls(names, types, frame=df, convert=convert, status_verb=status_verb)

    @classmethod
    def of_rows(
        cls,
        columns: Sequence[str],
        types: Sequence[str],
        rows: Iterable[Sequence[object]],
        status_verb: str = "SELECT",
    ) -> "Result":
        """A result with rows in memory."""
        row_tuples = [tuple(row) for row in rows]
        return cls(
            columns, types, rows=row_tuples, status_verb=status_verb, rowcount=len(row_tuples)
        )

    @classmethod
    def of_table(
        cls, heads: Iterable[tuple[str, str]], rows: Iterable[Sequence[object]], status_verb: str
    ) -> "Result":
        """The same, with the names and types of the columns in pairs."""
        columns, types = zip(*heads, strict=True)
        return cls.of_rows(columns, types, rows, status_verb)

    @classmethod
    def of_live(cls, columns: Sequence[str], types: Sequence[str], live: Live) -> "Result":
        """An unbounded result."""
        result = cls(columns, types, status_verb="SUBSCRIBE")
        result.live = live
        return result

    @classmethod
    def of_status(cls, status: str, rowcount: int = -1) -> "Result":
        """A statement without rows: ``INSERT 0 3``, ``CREATE TABLE``."""
        return cls((), (), status=status, rowcount=rowcount)

    @property
    def has_rows(self) -> bool:
        """Whether the statement returns rows, even if there are none."""
        return bool(self.columns)

    @property
    def rowcount(self) -> int:
        """Rows returned or changed; -1 while unknown (a query not yet read to its end)."""
        return self._rowcount

    @property
    def status(self) -> str:
        """``INSERT 0 3``, ``CREATE TABLE``; ``SELECT 5`` once all rows were read."""
        if self._status is not None:
            return self._status
        if self._rowcount < 0:
            return self._status_verb
        return f"{self._status_verb} {self._rowcount}"

    @property
    def description(self) -> CursorDescription | None:
        """PEP 249: seven items per column, with name and type set; None without rows."""
        if not self.has_rows:
            return None
        pairs = zip(self.columns, self.types, strict=True)
        return [(name, kind, None, None, None, None, None) for name, kind in pairs]

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        return next(self._rows_left(), None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next ``size`` rows (by default ``arraysize``), fewer at the end."""
        count = self.arraysize if size is None else size
        if count < 0:
            raise misuse("size may not be negative")
        return list(islice(self._rows_left(), count))

    def fetchall(self) -> list[Row]:
        """All rows not taken yet, in one Spark job if none was."""
        if self._cursor is None and self._frame is not None:
            with self._convert(), _catch_unheld():
                rows = self._fetch_frame().collect()
            self._cursor = iter(())
            self._rowcount = self._fetched_count = len(rows)
            return [self._plain(row) for row in rows]
        return list(self._rows_left())

    def head(self, count: int) -> list[Row]:
        """At most ``count`` first rows, computed lazily; uses up the result."""
        if self._cursor is None and self._frame is not None:
            with self._convert(), _catch_unheld():
                rows = self._fetch_frame().take(count)
            self._cursor = iter(())
            if len(rows) < count:
                self._rowcount = len(rows)
            return [self._plain(row) for row in rows]
        return self.fetchmany(count)

    def __iter__(self) -> Iterator[Row]:
        """The rows not taken yet, streamed."""
        return self._rows_left()

    scalar = conversions.scalar
    to_dicts = conversions.to_dicts
    to_pandas = conversions.to_pandas
    to_polars = conversions.to_polars
    __arrow_c_stream__ = conversions.arrow_stream

    def to_arrow(self) -> "pa.Table":
        """The whole result as an Arrow table."""
        self._require_rows()
        if self._frame is None:
            kinds = _arrow_types()
            if all(kind in kinds for kind in self.types):
                import pyarrow as pa

                rows = self._all_rows()
                arrays = [
                    pa.array([row[at] for row in rows], kinds[kind])
                    for at, kind in enumerate(self.types)
                ]
                return pa.Table.from_arrays(arrays, names=self.columns)
        from ctsql.runtime.rows.collect import all_as_arrow

        frame = self.to_spark()
        with self._convert():
            table = all_as_arrow(frame)
        self._rowcount = table.num_rows
        return table

    def __repr__(self) -> str:
        """A short description; computes no row."""
        if not self.has_rows:
            return f"<Result {self.status}>"
        pairs = zip(self.columns, self.types, strict=True)
        count = f", {self._rowcount} rows" if self._rowcount >= 0 else ""
        return f"<Result ({', '.join(f'{name} {kind}' for name, kind in pairs)}){count}>"

    def _repr_html_(self) -> str | None:
        """The first rows as a table, for notebooks; the result can still be read whole."""
        from ctsql.results.conversions import html_table

        if not self.has_rows or self.live is not None:
            return None
        rows = self._rows
        if self._frame is not None:
            with self._convert(), _catch_unheld():
                rows = [self._plain(row) for row in self._fetch_frame().take(_SHOWN_ROWS + 1)]
        return html_table(self.columns, self.types, (rows or [])[: _SHOWN_ROWS + 1], _SHOWN_ROWS)

    def to_spark(self) -> "DataFrame":
        """The result as a Spark DataFrame, lazy for a query."""
        self._require_rows()
        if self._frame is not None:
            return self._frame
        from pyspark.sql import SparkSession

        with self._convert():
            session = SparkSession.getActiveSession()
            if session is None:
                raise misuse("Spark has not been started")
            pairs = zip(self.columns, self.types, strict=True)
            schema = ", ".join(f"{backtick(name)} {kind}" for name, kind in pairs)
            return session.createDataFrame(self._all_rows(), schema)

    def _all_rows(self) -> list[Row]:
        """The rows of a result without a frame; a live one is read to its end."""
        if self.live is not None:
            self._rows, self.live = list(self._rows_left()), None
        return self._rows or []

    def _require_rows(self) -> None:
        if not self.has_rows:
            raise error("INVALID_USAGE", message=f"{self.status} gives no rows")

    def _rows_left(self) -> Iterator[Row]:
        self._require_rows()
        if self._cursor is None:
            self._cursor = self._stream()
        return self._cursor

    def _plain(self, row: Sequence[Any]) -> Row:
        """A row of :meth:`_fetch_frame` as plain values."""
        values = list(row)
        for i, kind in enumerate(self.types):
            if values[i] is None:
                continue
            if kind == "timestamp":
                values[i] = _moment(kind, _EPOCH, microseconds=values[i])
            elif kind == "timestamp_ntz":
                values[i] = _moment(kind, _LOCAL_EPOCH, microseconds=values[i])
            elif kind == "date":
                values[i] = _moment(kind, _LOCAL_EPOCH, days=values[i]).date()
            elif kind == "binary":
                values[i] = bytes(values[i])
            elif holds_instants(kind) or holds_entries(kind):
                with _catch_unheld():
                    values[i] = of_python(values[i], kind)
        return tuple(values)

    def _fetch_frame(self) -> "DataFrame":
        """The frame with instants as microseconds, dates as days, intervals of months as texts.

        PySpark returns instants in this machine's zone, fails near the year 1, and raises unclear
        errors for dates that Python cannot represent. It converts maps to dicts even if their keys
        are lists; such maps are fetched as arrays of entries.
        """
        assert self._frame is not None  # checked by callers
        if not any(k in _NUMBERED or _is_months(k) or holds_entries(k) for k in self.types):
            return self._frame
        names = [f"c{i}" for i in range(len(self.columns))]
        frame = self._frame.toDF(*names)
        pairs = zip(frame.schema.fields, self.types, strict=True)
        return frame.select(*(_fetchable(f.name, kind, f.dataType) for f, kind in pairs))

    def _stream(self) -> Iterator[Row]:
        if self.live is not None:
            for batch in self.live.batches():
                yield from batch.rows()
            return
        if self._frame is None:
            yield from self._rows or []
            return
        from ctsql.runtime.spark.internals.partitions import partition_rows

        with self._convert():
            rows = partition_rows(self._fetch_frame())
        while True:
            # The job of the next partition may run (and fail) here.
            with self._convert(), _catch_unheld():
                chunk = list(islice(rows, _CHUNK_ROWS))
            self._fetched_count += len(chunk)
            if len(chunk) < _CHUNK_ROWS:
                self._rowcount = self._fetched_count
            yield from map(self._plain, chunk)
            if len(chunk) < _CHUNK_ROWS:
                return


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)
_NUMBERED = ("timestamp", "timestamp_ntz", "date")


def _is_months(kind: str) -> bool:
    """Whether it is an interval without a type in Python."""
    return kind == "interval" or kind.startswith(("interval year", "interval month"))


def _fetchable(name: str, kind: str, data_type: "DataType") -> "SparkColumn":
    from pyspark.sql import functions as F

    column = F.col(name)
    match kind:
        case "timestamp":
            column = F.unix_micros(column)
        case "timestamp_ntz":
            column = F.unix_micros(column.cast("timestamp"))  # the engine's session is in UTC
        case "date":
            column = F.unix_date(column)
        case _ if _is_months(kind):
            column = column.cast("string")
        case _ if holds_entries(kind):
            column = _with_entries(column, data_type)
    return column.alias(name)


def _with_entries(column: "SparkColumn", data_type: "DataType") -> "SparkColumn":
    """A value with every map in it as an array of its entries."""
    from pyspark.sql import functions as F, types as T

    match data_type:
        case T.ArrayType():
            return F.transform(column, lambda item: _with_entries(item, data_type.elementType))
        case T.MapType():
            key, value = data_type.keyType, data_type.valueType

            def entry(pair: "SparkColumn") -> "SparkColumn":
                return F.struct(
                    _with_entries(pair["key"], key), _with_entries(pair["value"], value)
                )

            return F.transform(F.map_entries(column), entry)
        case T.StructType():
            fields = [
                _with_entries(column.getField(f.name), f.dataType).alias(f.name)
                for f in data_type.fields
            ]
            return F.when(column.isNotNull(), F.struct(*fields))
    return column


def _moment(kind: str, epoch: datetime, *, days: int = 0, microseconds: int = 0) -> datetime:
    try:
        return epoch + timedelta(days=days, microseconds=microseconds)
    except OverflowError as problem:
        raise _unheld_error(f"a {kind}") from problem


@contextlib.contextmanager
def _catch_unheld() -> Iterator[None]:
    """Translate errors about nested dates and timestamps that Python cannot represent."""
    try:
        yield
    except (ValueError, OverflowError) as problem:
        raise _unheld_error("a date or timestamp within a value") from problem


def _unheld_error(what: str) -> CtsqlError:
    message = f"{what} is outside the years 1 to 9999, which Python can hold"
    return error("DATA_ERROR", message=message, hint="Fetch it as text: CAST(... AS STRING).")


def _arrow_types() -> "dict[str, pa.DataType]":
    """The Arrow types of Spark's simple types, by their names."""
    import pyarrow as pa

    return {
        "string": pa.string(),
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
