"""The rows of a result that goes on, written as they come.

Every batch is flushed before the next is asked for, so that a reader with a name has acknowledged
nothing that was not written.

Tables have no widths to begin with: a column grows when a wider value comes. JSON is one array
that is closed when the result ends or is stopped; JSON lines suit programs better.
"""

from collections.abc import Callable
from typing import TextIO

from rich.cells import cell_len

from ctsql.result import Result, Row
from ctsql.show import (
    NULL,
    Format,
    arrow_output,
    csv_field,
    json_keys,
    json_row,
    markdown_cell,
    one_line,
    padded,
)
from ctsql.values import is_number, text_of


def write_live(result: Result, format: Format, out: TextIO) -> None:
    """Write a live result until it ends or is stopped.

    Args:
        out: where to. Arrow goes to its ``buffer``.
    """
    live = result.live
    assert live is not None  # the caller looked
    if format is Format.ARROW:
        _write_arrow(result, out)
        return
    before, line, between, behind = _writers(result, format)
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


def _writers(result: Result, format: Format) -> tuple[str, Callable[[Row], str], str, str]:
    """What comes before all rows, a row, what comes between two, and behind all."""
    names, kinds = result.columns, result.types
    match format:
        case Format.JSON:
            keys = json_keys(result)
            return "[", lambda row: "\n  " + json_row(keys, kinds, row), ",", "\n]\n"
        case Format.JSONL:
            keys = json_keys(result)
            return "", lambda row: json_row(keys, kinds, row) + "\n", "", ""
        case Format.CSV:
            head = ",".join(csv_field(name, "string") for name in names) + "\n"
            return head, lambda row: _csv_line(row, kinds), "", ""
        case Format.MARKDOWN:
            rules = ("---:" if is_number(kind) else "---" for kind in kinds)
            head = _markdown_line(list(names)) + "| " + " | ".join(rules) + " |\n"
            return head, lambda row: _markdown_line(_texts(row, kinds)), "", ""
        case _:
            table = _Table(result)
            return table.head(), table.line, "", ""


def _texts(row: Row, kinds: list[str]) -> list[str]:
    pairs = zip(row, kinds, strict=True)
    return [NULL if value is None else text_of(value, kind) for value, kind in pairs]


def _csv_line(row: Row, kinds: list[str]) -> str:
    return ",".join(csv_field(v, k) for v, k in zip(row, kinds, strict=True)) + "\n"


def _markdown_line(cells: list[str]) -> str:
    return "| " + " | ".join(map(markdown_cell, cells)) + " |\n"


class _Table:
    """Lines of a table whose columns grow."""

    def __init__(self, result: Result) -> None:
        self._names = [one_line(name) for name in result.columns]
        self._kinds = result.types
        self._right = [is_number(kind) for kind in result.types]
        self._widths = [cell_len(name) for name in self._names]

    def head(self) -> str:
        """The names, and the line below them."""
        # A T has 13 digits from 2001 to 2286.
        self._widths[0] = max(self._widths[0], 13)
        rule = "+".join("-" * (width + 2) for width in self._widths)
        return self._line(self._names) + rule + "\n"

    def line(self, row: Row) -> str:
        """One row."""
        return self._line([one_line(text) for text in _texts(row, self._kinds)])

    def _line(self, cells: list[str]) -> str:
        self._widths = [max(w, cell_len(c)) for w, c in zip(self._widths, cells, strict=True)]
        return padded(cells, self._widths, self._right)


def _write_arrow(result: Result, out: TextIO) -> None:
    """One IPC stream; a record batch for each batch of rows. It begins with the first of them."""
    binary = arrow_output(out)
    import pyarrow as pa

    assert result.live is not None  # the caller looked
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
