r"""Writes results as text or Arrow.

A table that does not fit a terminal is written with one line a value. CSV, JSON and JSON lines are
written row by row, with at most a partition in memory; a table needs its widths first, so all its
rows are in memory. The columns of an unbounded result's table have fixed widths, which wider values
exceed.

CSV follows RFC 4180 with "\n" line ends; NULL is an empty field, an empty string is ``""``.
Columns of one name have different names in JSON: ``a``, ``a_2``.
"""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from enum import Enum
from typing import IO, TextIO

from rich.cells import cell_len
from rich.console import Console

from ctsql.catalog.errors import misuse
from ctsql.rendering.output_file import publish_if_file
from ctsql.results.conversions import unique_names
from ctsql.results.result import Result, Row
from ctsql.results.values import NULL, is_number, json_of, text_of, texts

_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NEEDS_QUOTES = re.compile(r'[",\r\n]')
_ROOM = 12  # cells: the width of a column of an unbounded table


class Format(Enum):
    """The output formats, by the names that ``--format`` takes."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    ARROW = "arrow"


def write_result(
    result: Result,
    format: Format,
    out: TextIO,
    *,
    limit: int | None = None,
    expanded: bool = False,
    terminal: bool | None = None,
    null: str = NULL,
) -> None:
    """Write a result's rows; nothing for a statement without rows.

    The rows of an unbounded result are written as they are delivered, until it ends or is stopped.
    Each batch is flushed before the next, so a named reader acknowledges only written rows.

    Args:
        result: its rows can be read once. out: Arrow is written to its ``buffer``.
        limit: the maximum rows of a table; if there are more, a note follows. None for all.
        expanded: for tables: one line per value.
        terminal: whether ``out`` is one; by default ``out.isatty()``.
        null: the text for NULL in a table.
    """
    if not result.has_rows:
        return
    if result.live is not None:
        publish_if_file(out)
    if format is Format.ARROW:
        _write_arrow(result, out)
    elif format is Format.TABLE and result.live is None:
        rows = result.fetchall() if limit is None else result.head(limit + 1)
        more, rows = limit is not None and len(rows) > limit, rows[:limit]
        tty = out.isatty() if terminal is None else terminal
        if tty and result.text_end is not None and not expanded:
            _write_text(result, rows, out)
            out.flush()
            return
        table, cells = _table(result, rows, null)
        is_too_wide = tty and table.width > shutil.get_terminal_size().columns
        if expanded or (is_too_wide and len(table.heads) > 1):
            _write_expanded(table.heads, cells, out)
        else:
            out.write(table.top() + "".join(f"{table.line(row)}\n" for row in cells))
        out.write(_footer(len(rows), more=more))
    else:
        _write_rows(result, format, out)
    out.flush()


def _write_rows(result: Result, format: Format, out: TextIO) -> None:
    before, line, between, behind = _row_format(result, format)
    out.write(before)
    out.flush()
    separator = None
    for rows in [result] if result.live is None else (b.rows() for b in result.live.batches()):
        for row in rows:
            out.write((separator or "") + line(row))
            separator = between
        out.flush()
    out.write(behind if separator is not None else behind.lstrip())


def _footer(count: int, *, more: bool) -> str:
    if more:
        return f"(the first {count} rows; there are more: \\set limit 0 shows all)\n"
    return f"({count} row{'' if count == 1 else 's'})\n"


def one_line(text: str) -> str:
    """Escape line breaks and control characters."""
    return _STEERING.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{{{ord(match[0]):x}}}", text)


def _lines(row: Row, kinds: Sequence[str], null: str = NULL) -> list[str]:
    return [one_line(text) for text in texts(row, kinds, null)]


def _pad(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


class PlainTable:
    """The lines of a table; ``widths`` are the least widths of its columns, in cells."""

    def __init__(self, names: Sequence[str], kinds: Sequence[str], widths: Sequence[int]) -> None:
        self.heads = [one_line(name) for name in names]
        self._right = [is_number(kind) for kind in kinds]
        self._widths = [max(cell_len(h), w) for h, w in zip(self.heads, widths, strict=True)]

    @property
    def width(self) -> int:
        """The cells of a line."""
        return sum(self._widths) + 3 * len(self._widths) - 1

    def top(self) -> str:
        """The names, with a line below them."""
        return f"{self.line(self.heads)}\n{'+'.join('-' * (w + 2) for w in self._widths)}\n"

    def line(self, cells: Sequence[str]) -> str:
        """A row, without a line end."""
        self._widths = [max(w, cell_len(c)) for w, c in zip(self._widths, cells, strict=True)]
        columns = zip(cells, self._widths, self._right, strict=True)
        return (" " + " | ".join(_pad(c, w, right=r) for c, w, r in columns)).rstrip()


def widths_of(rows: Sequence[Sequence[str]], count: int) -> list[int]:
    """The width of each of ``count`` columns that holds the cells of all rows."""
    return [max((cell_len(row[at]) for row in rows), default=0) for at in range(count)]


def _table(result: Result, rows: list[Row], null: str) -> tuple[PlainTable, list[list[str]]]:
    """The table of a result in memory, and its cells."""
    cells = [_lines(row, result.types, null) for row in rows]
    widths = widths_of(cells, len(result.columns))
    return PlainTable(result.columns, result.types, widths), cells


def _write_text(result: Result, rows: list[Row], out: TextIO) -> None:
    """Write the last column unchanged: a statement or a plan, to be read and copied."""
    for row in rows:
        text = NULL if row[-1] is None else text_of(row[-1], result.types[-1])
        lines = (one_line(line.replace("\t", "    ")) for line in text.split("\n"))
        out.write("\n".join(lines) + f"{result.text_end}\n")


def _write_expanded(heads: Sequence[str], cells: Sequence[Sequence[str]], out: TextIO) -> None:
    width = max(map(cell_len, heads))
    for number, row in enumerate(cells, start=1):
        out.write(f"-[ row {number} ]-\n")
        for head, text in zip(heads, row, strict=True):
            out.write(f"{_pad(head, width, right=False)} | {text}\n")


def _csv_field(value: object, kind: str) -> str:
    if value is None:
        return ""
    text = text_of(value, kind)
    if text == "" or text != text.strip() or _NEEDS_QUOTES.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _json_row(keys: list[str], kinds: list[str], row: Row) -> str:
    """A row as one JSON object; see :func:`_json_keys`."""
    items = (f"{k}: {json_of(v, kind)}" for k, v, kind in zip(keys, row, kinds, strict=True))
    return "{" + ", ".join(items) + "}"


def _json_keys(result: Result) -> list[str]:
    """The columns' names as JSON strings, no two alike."""
    return [json.dumps(name, ensure_ascii=False) for name in unique_names(result.columns)]


RowFormat = tuple[str, Callable[[Row], str], str, str]
"""The text before all rows, the text of a row, the separator, and the text after all rows."""


def _row_format(result: Result, format: Format) -> RowFormat:
    """The format of rows that are written one by one."""
    names, kinds = result.columns, result.types
    match format:
        case Format.JSON:
            keys = _json_keys(result)
            return "[", lambda row: "\n  " + _json_row(keys, kinds, row), ",", "\n]\n"
        case Format.JSONL:
            keys = _json_keys(result)
            return "", lambda row: _json_row(keys, kinds, row) + "\n", "", ""
        case Format.CSV:
            head = ",".join(_csv_field(name, "string") for name in names) + "\n"
            return head, lambda row: ",".join(map(_csv_field, row, kinds)) + "\n", "", ""
        case _:
            # A T has 13 digits from 2001 to 2286; most diffs have two.
            table = PlainTable(names, kinds, [13, 4, *[_ROOM] * (len(kinds) - 2)])
            return table.top(), lambda row: table.line(_lines(row, kinds)) + "\n", "", ""


def _binary(out: TextIO) -> IO[bytes]:
    """The binary stream for Arrow data; raises INVALID_USAGE for a terminal."""
    binary: IO[bytes] | None = getattr(out, "buffer", None)
    if binary is None or out.isatty():
        message = "binary data cannot be shown on a terminal"
        detail = "Send it to a file or a program: ctsql --format arrow -o FILE."
        raise misuse(message, detail)
    return binary


def _write_arrow(result: Result, out: TextIO) -> None:
    """Write an IPC stream, with a record batch for each batch of an unbounded result."""
    binary, live = _binary(out), result.live
    import pyarrow as pa

    writer = None
    for table in [result.to_arrow()] if live is None else (b.to_arrow() for b in live.batches()):
        if writer is None:
            out.flush()
            schema = table.schema
            writer = pa.ipc.new_stream(binary, schema)
        writer.write_table(table.cast(schema))
        binary.flush()
    if writer is not None:
        writer.close()
        binary.flush()


def messages() -> Console:
    """The console of errors and notes: standard error, coloured on a terminal only."""
    # Created for each use: at a prompt, standard error is what prints above the prompt.
    return Console(stderr=True, highlight=False, soft_wrap=True)
