"""The screen of ``ctsql status --watch`` as lines of text, for any width and height. Pure.

time, how many objects are in which state
one line an object: mark, name, state, lag, rows and seconds of its last refreshes
what is to be said of the chosen object
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from rich.cells import cell_len, set_cell_size

from ctsql.catalog import times
from ctsql.runtime.monitoring.watch import WatchedObject
from ctsql.show import one_line

Line = list[tuple[str, str]]
"""Pieces of a line: the name of a style, and a text."""

SPARKS_MAX = 20
DETAIL_LINES = 6
_STATE_WIDTH, _LAG_WIDTH, _SPARK_MIN, _NAME_MIN = 10, 8, 6, 12
_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_MARKS = {"failed": "!", "unreadable": "!", "behind": ">", "suspended": "="}
_STYLES = {
    "failed": "bad",
    "unreadable": "bad",
    "behind": "late",
    "suspended": "dim",
    "finished": "dim",
}


@dataclass(frozen=True, slots=True)
class Screen:
    """What is on the screen.

    Attributes:
        rows: the objects, in order. cursor: the index of the chosen one. top: of the first shown.
        problem: why the rows are not new; empty when they are.
        plain: whether the terminal shows ASCII only.
    """

    rows: Sequence[WatchedObject] = ()
    cursor: int = 0
    top: int = 0
    problem: str = ""
    plain: bool = False

    def move_cursor(self, by: int, height: int) -> "Screen":
        """With another object chosen, and scrolled so that it is seen."""
        cursor = max(0, min(self.cursor + by, len(self.rows) - 1))
        row_count = max(height - DETAIL_LINES - 2, 1)
        top = max(min(self.top, cursor), cursor - row_count + 1, 0)
        return replace(self, cursor=cursor, top=top)

    def with_rows(self, rows: Sequence[WatchedObject], height: int) -> "Screen":
        """With new rows; the same object stays chosen, where it is still there.

        As long as the first one is chosen it stays the first: there failures come up.
        """
        name = self.rows[self.cursor].lag.object if self.rows and self.cursor else None
        index = next((n for n, w in enumerate(rows) if w.lag.object == name), 0)
        return replace(self, rows=rows, cursor=index, problem="").move_cursor(0, height)

    def with_problem(self, problem: str) -> "Screen":
        """With the rows that were there, and why there are no new ones."""
        return replace(self, problem=problem)


def draw(screen: Screen, width: int, height: int, now_ms: int) -> list[Line]:
    """The lines of the screen, ``height`` of them, none wider than ``width`` cells."""
    row_count = max(height - DETAIL_LINES - 2, 1)
    spark = max(min((width - 40) // 3, SPARKS_MAX), _SPARK_MIN)
    name = max(width - _STATE_WIDTH - _LAG_WIDTH - 2 * spark - 6, _NAME_MIN)
    widths = (name, spark)
    lines = [_head(screen, now_ms), [("head", _columns(widths))]]
    rows = screen.rows[screen.top : screen.top + row_count]
    for n, row in enumerate(rows, start=screen.top):
        lines.append(_row(row, widths, chosen=n == screen.cursor, plain=screen.plain))
    lines += [[] for _ in range(row_count - len(rows))]
    lines += _detail(screen, width)
    return [_fitted(line, width) for line in lines[:height]]


def _head(screen: Screen, now_ms: int) -> Line:
    counts = Counter(w.lag.state for w in screen.rows)
    counts_text = ", ".join(f"{n} {state}" for state, n in counts.items()) or "no tasks or views"
    style = "bad" if counts["failed"] or counts["unreadable"] else "head"
    return [("head", f"{times.to_iso(now_ms)[11:19]} UTC  "), (style, counts_text)]


def _columns(widths: tuple[int, int]) -> str:
    name, spark = widths
    cells = (("object", name + 3), ("state", _STATE_WIDTH + 1), ("lag", _LAG_WIDTH))
    head = "".join(set_cell_size(text, size) for text, size in cells[:2])
    return f"{head}{cells[2][0]:>{_LAG_WIDTH}} {'rows':>{spark}} {'seconds':>{spark}}"


def _row(row: WatchedObject, widths: tuple[int, int], *, chosen: bool, plain: bool) -> Line:
    lag, (name, spark) = row.lag, widths
    style = _STYLES.get(lag.state, "")
    rows = [(r.rows_inserted or 0) + (r.rows_deleted or 0) for r in row.refreshes]
    seconds = [r.seconds or 0.0 for r in row.refreshes]
    mark = _MARKS.get(lag.state, " ")
    pointer = ">" if chosen and plain else ("›" if chosen else " ")
    return [
        ("chosen" if chosen else style, f"{pointer}{mark}{_truncate(one_line(lag.object), name)} "),
        (style, f"{lag.state:<{_STATE_WIDTH}} {duration(lag.lag_seconds):>{_LAG_WIDTH}} "),
        ("rows", sparkline(rows, spark, plain=plain) + " "),
        ("seconds", sparkline(seconds, spark, plain=plain)),
    ]


def _truncate(text: str, width: int) -> str:
    """A text in a width, with its end cut off where it is longer."""
    return set_cell_size(text if cell_len(text) <= width else text[: width - 1] + "~", width)


def _detail(screen: Screen, width: int) -> list[Line]:
    """What is said of the chosen object."""
    line: Line = []
    if screen.problem:
        line.append(("bad", f"not new: {one_line(screen.problem)}"))
    if screen.rows:
        row = screen.rows[screen.cursor]
        lag = row.lag
        if lag.error_message:
            at = "" if lag.error_t is None else f"T = {lag.error_t}: "
            line.append(("bad", at + one_line(lag.error_message)))
        if row.refreshes:
            line.append(("dim", _last(row)))
        if row.what_to_do:
            line.append(("", one_line(row.what_to_do)))
    pieces = [(style, part) for style, text in line for part in wrap(text, max(width, 1))]
    lines: list[Line] = [[("head", "-" * width)], *([piece] for piece in pieces)]
    lines += [[] for _ in range(DETAIL_LINES - 1 - len(lines))]
    keys = "arrows, PgUp, PgDn, Home, End move   q leaves"
    return [*lines[: DETAIL_LINES - 1], [("dim", keys)]]


def _last(row: WatchedObject) -> str:
    last = row.refreshes[-1]
    inserts, deletes = ("?" if n is None else n for n in (last.rows_inserted, last.rows_deleted))
    reason = f" because {last.reason}" if last.reason else ""
    return (
        f"last: {last.at:%Y-%m-%d %H:%M:%S} {last.strategy}{reason}, "
        f"+{inserts} -{deletes} rows, {last.seconds or 0:.2f} s"
    )


def _fitted(line: Line, width: int) -> Line:
    """The pieces that fit into a width."""
    pieces, room = [], width
    for style, text in line:
        size = cell_len(text)
        if size > room:
            text, size = set_cell_size(text, room), room
        if text:
            pieces.append((style, text))
        room -= size
    return pieces


def sparkline(values: Sequence[float], width: int, *, plain: bool = False) -> str:
    """The last values as bars from 0 to the greatest, right-aligned.

    >>> sparkline([0, 1, 2, 4], 6), sparkline([3], 2), sparkline([], 2)
    ('  ▁▃▅█', ' █', '  ')
    >>> sparkline([1, 8], 2, plain=True), sparkline([0, 0], 2)
    ('.#', '▁▁')
    """
    bars = _PLAIN_BARS if plain else _BARS
    tail = values[-width:]
    most = max(tail, default=0)
    top = len(bars) - 1
    marks = (bars[min(int(v / most * top + 0.5), top) if most else 0] for v in tail)
    return "".join(marks).rjust(width)


def duration(seconds: float) -> str:
    """A duration in at most eight characters.

    >>> [duration(s) for s in (0, 0.25, 12, 75, 3 * 3600 + 120, 400_000)]
    ['', '250 ms', '12.0 s', '1m 15s', '3h 2m', '4d 15h']
    """
    whole = int(seconds)
    if seconds <= 0:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if whole < 60:
        return f"{seconds:.1f} s"
    if whole < 3_600:
        return f"{whole // 60}m {whole % 60}s"
    if whole < 86_400:
        return f"{whole // 3_600}h {whole % 3_600 // 60}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3_600}h"
