"""Draws rows as a table that fits a terminal. Pure.

A table that is too wide first has its widest columns folded, at spaces if possible; no column
becomes narrower than its name or 16 cells. Then columns in the middle are left out, with ``…`` in
their place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, chop_cells

_NARROW = 16  # cells: a column of this width is not folded while others are wider
_FRAME = 3  # cells of a column in addition to its values: two blanks and a line
_GAP = "…"
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Layout:
    """The shown columns, from 0, their widths in cells, and the number of columns before ``…``."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    gap: int | None = None


def lay_out(heads: Sequence[int], natural: Sequence[int], room: int) -> Layout:
    """Choose columns and widths; all numbers are cells.

    Args:
        heads: the width of each column's name. natural: of each column without folding, its name
            included. room: of the terminal.
    """
    least = [min(n, max(h, _NARROW)) for h, n in zip(heads, natural, strict=True)]
    left, right = _count_fitting(least, room)
    if left == len(least):
        columns = tuple(range(left))
        return Layout(
            columns, _fold([natural[i] for i in columns], [least[i] for i in columns], room)
        )
    columns = (*range(left), *range(len(least) - right, len(least)))
    room -= _FRAME + 1
    widths = _fold([natural[i] for i in columns], [least[i] for i in columns], room)
    return Layout(columns, widths, left)


def _count_fitting(least: Sequence[int], room: int) -> tuple[int, int]:
    """The number of columns from the left and from the right that fit; at least one."""
    if sum(least) + _FRAME * len(least) + 1 <= room:
        return len(least), 0
    used = 1 + _FRAME + 1  # the frame, and the column of the gap
    left = right = 0
    while left + right < len(least):
        is_left = left <= right
        width = least[left if is_left else len(least) - 1 - right] + _FRAME
        if used + width > room:
            break
        used += width
        left, right = (left + 1, right) if is_left else (left, right + 1)
    return max(left, 1), right


def _fold(natural: list[int], least: list[int], room: int) -> tuple[int, ...]:
    """Narrow the widest columns as far as needed, all to one width if possible."""
    free = room - _FRAME * len(natural) - 1
    cap = max(natural)

    def widths(cap: int) -> list[int]:
        return [max(low, min(wide, cap)) for wide, low in zip(natural, least, strict=True)]

    while cap > 1 and sum(widths(cap)) > free:
        cap -= 1
    if len(natural) == 1:
        return (min(natural[0], max(free, 1)),)
    return tuple(widths(cap))


def draw(
    heads: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    right: Sequence[bool],
    layout: Layout,
    *,
    null: str,
    has_styles: bool = False,
) -> Iterator[str]:
    """The lines of a table, with their line ends.

    Args:
        heads, rows: texts of one line each. right: whether a column is aligned to the right.
        null: the dim text for None. has_styles: whether the terminal supports bold and dim.
    """
    widths, gap = layout.widths, layout.gap
    rules = ["─" * (width + 2) for width in widths]
    if gap is not None:
        rules.insert(gap, "───")

    def lines(row: Sequence[str | None], style: str = "") -> Iterator[str]:
        marks = [style or (DIM if row[index] is None else "") for index in layout.columns]
        cells = [null if (text := row[index]) is None else text for index in layout.columns]
        if all(len(c) <= w and c.isascii() for c, w in zip(cells, widths, strict=True)):
            parts: Sequence[Sequence[str]] = (cells,)
        else:
            cell_lines = (_wrap(c, w) for c, w in zip(cells, widths, strict=True))
            parts = list(zip_longest(*cell_lines, fillvalue=""))
        for part in parts:
            pieces = []
            for index, text, width, mark in zip(layout.columns, part, widths, marks, strict=True):
                blanks = " " * (width - (len(text) if text.isascii() else cell_len(text)))
                if has_styles and mark:
                    text = f"{mark}{text}{PLAIN}"
                pieces.append(f" {blanks}{text} " if right[index] else f" {text}{blanks} ")
            if gap is not None:
                pieces.insert(gap, f" {_GAP} ")
            yield "│" + "│".join(pieces) + "│\n"

    yield "╭" + "┬".join(rules) + "╮\n"
    yield from lines(heads, BOLD)
    yield "├" + "┼".join(rules) + "┤\n"
    for row in rows:
        yield from lines(row)
    yield "╰" + "┴".join(rules) + "╯\n"


def _wrap(text: str, width: int) -> list[str]:
    """A text as lines of at most ``width`` cells; broken at blanks if possible."""
    pieces: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_len(longer) <= width:
            line = longer
            continue
        if line:
            pieces.append(line)
        *whole, line = chop_cells(word, width) or [""]
        pieces += whole
    return [*pieces, line]
