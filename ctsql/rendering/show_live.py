"""Writes the rows of an unbounded result as they are delivered.

Every batch is flushed before the next is taken, so a named reader acknowledges only what was
written.

The columns of a table have room for usual values of their types, and grow with wider ones. JSON is
one array, closed when the result ends or is stopped; JSON lines suit programs better.
"""

from typing import TextIO

from rich.cells import cell_len

from ctsql.catalog.errors import misuse
from ctsql.rendering.output_file import publish_if_file
from ctsql.rendering.show import Format, RowFormat, arrow_output, join_cells, one_line, row_format
from ctsql.results.result import Result, Row
from ctsql.results.values import is_number, texts


def write_live(result: Result, format: Format, out: TextIO) -> None:
    """Write a live result until it ends or is stopped; Arrow is written to ``out.buffer``."""
    live = result.live
    assert live is not None  # checked by the caller
    if format is Format.PARQUET:
        raise misuse("a subscription has no end, and a Parquet file has one")
    publish_if_file(out)
    if format is Format.ARROW:
        _write_arrow(result, out)
        return
    is_table = format is Format.TABLE
    before, line, between, behind = (
        _Table(result).format() if is_table else row_format(result, format)
    )
    out.write(before)
    out.flush()
    separator = ""
    for batch in live.batches():
        for row in batch.rows():
            out.write(separator + line(row))
            separator = between
        out.flush()
    out.write(behind)
    out.flush()


_ROOM = {
    "int": 6, "bigint": 8, "double": 8, "float": 8, "decimal": 10, "boolean": 5, "string": 12,
    "varchar": 12, "char": 12, "date": 10, "timestamp": 24, "timestamp_ntz": 24,
}  # fmt: skip
"""Cells for values of a type, as more than that seldom comes."""


class _Table:
    """Lines of a table whose columns grow."""

    def __init__(self, result: Result) -> None:
        self._names = [one_line(name) for name in result.columns]
        self._kinds = result.types
        self._right = [is_number(kind) for kind in result.types]
        # A T has 13 digits from 2001 to 2286; most diffs have two.
        room = [13, 4, *(_ROOM.get(kind.partition("(")[0], 0) for kind in result.types[2:])]
        self._widths = [max(cell_len(n), w) for n, w in zip(self._names, room, strict=True)]

    def format(self) -> RowFormat:
        """As :func:`row_format`: the names with the line below them, and each row."""
        rule = "+".join("-" * (width + 2) for width in self._widths)
        return self._line(self._names) + rule + "\n", self.line, "", ""

    def line(self, row: Row) -> str:
        return self._line([one_line(text) for text in texts(row, self._kinds)])

    def _line(self, cells: list[str]) -> str:
        self._widths = [max(w, cell_len(c)) for w, c in zip(self._widths, cells, strict=True)]
        return join_cells(cells, self._widths, self._right)


def _write_arrow(result: Result, out: TextIO) -> None:
    """Write one IPC stream, with a record batch per batch; nothing without a batch."""
    binary = arrow_output(out)
    import pyarrow as pa

    assert result.live is not None  # checked by the caller
    out.flush()
    writer, schema = None, None
    for batch in result.live.batches():
        table = batch.to_arrow()
        if writer is None:
            schema = table.schema
            writer = pa.ipc.new_stream(binary, schema)
        writer.write_table(table.cast(schema))
        binary.flush()
    if writer is not None:
        writer.close()
        binary.flush()
