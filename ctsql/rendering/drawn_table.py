"""Draws rows as a table that fits a terminal. Pure.

A table that is too wide has its widest columns folded, at spaces if possible; no column becomes
narrower than its name or 16 cells.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len, chop_cells

_NARROW = 16  # cells: a column of this width is not folded while others are wider
_FRAME = 3  # cells of a column in addition to its values: two blanks and a line
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def lay_out(heads: Sequence[int], natural: Sequence[int], room: int) -> list[int] | None:
    """The widths of the columns; None if they do not fit. All numbers are cells.

    Args:
        heads: the width of each column's name. natural: of each column without folding, its name
            included. room: of the terminal.
    """
    free = room - _FRAME * len(natural) - 1
    if len(natural) == 1:
        return [min(natural[0], max(free, 1))]
    least = [min(n, max(h, _NARROW)) for h, n in zip(heads, natural, strict=True)]
    if sum(least) > free:
        return None
    cap = max(natural)

    def widths() -> list[int]:
        return [max(low, min(wide, cap)) for wide, low in zip(natural, least, strict=True)]

    while sum(widths()) > free:
        cap -= 1
    return widths()


def draw(
    heads: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    right: Sequence[bool],
    widths: Sequence[int],
    *,
    null: str,
    has_styles: bool = False,
) -> Iterator[str]:
    """The lines of a table, with their line ends.

    Args:
        heads, rows: texts of one line each. right: whether a column is aligned to the right.
        null: the dim text for None. has_styles: whether the terminal supports bold and dim.
    """
    rules = ["─" * (width + 2) for width in widths]

    def lines(row: Sequence[str | None], style: str = "") -> Iterator[str]:
        marks = [style or (DIM if text is None else "") for text in row]
        cells = [null if text is None else text for text in row]
        if all(len(c) <= w and c.isascii() for c, w in zip(cells, widths, strict=True)):
            parts: Sequence[Sequence[str]] = (cells,)
        else:
            cell_lines = (_wrap(c, w) for c, w in zip(cells, widths, strict=True))
            parts = list(zip_longest(*cell_lines, fillvalue=""))
        for part in parts:
            pieces = []
            for text, width, mark, is_right in zip(part, widths, marks, right, strict=True):
                blanks = " " * (width - (len(text) if text.isascii() else cell_len(text)))
                if has_styles and mark:
                    text = f"{mark}{text}{PLAIN}"
                pieces.append(f" {blanks}{text} " if is_right else f" {text}{blanks} ")
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
