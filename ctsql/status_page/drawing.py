"""Numbers, times and texts of the status page, for its drawings and tables. Pure.

All sizes are SVG units: CSS pixels at a drawing's natural size. Colours and fonts are in the style
sheet, because the content security policy allows no style in an element.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ctsql.results.values import bytes_text
from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.status_page.layers import layout
from ctsql.status_page.model import Arrow, GraphNode, Overview

NODE_WIDTH, NODE_HEIGHT = 196, 58
GAP_X, GAP_Y, MARGIN = 64, 16, 8
NAME_LETTERS_MAX = 21
BARS_WIDTH, BARS_HEIGHT = 800, 110
BAR_HEIGHT_MIN = 2.0
"""The height of a refresh without time or rows, so that it is visible."""


@dataclass(frozen=True, slots=True)
class Box:
    """An object of the graph at its place; ``label`` is its name, shortened to fit."""

    node: GraphNode
    x: float
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Curve:
    """An arrow of the graph as an SVG path."""

    arrow: Arrow
    path: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]


def graph(overview: Overview) -> Graph:
    """Draw the objects and what they read."""
    objects = sorted(overview.objects, key=lambda o: (o.name, o.id))
    cells = layout([o.id for o in objects], ((a.read, a.reader) for a in overview.arrows))
    at = {
        object_id: (MARGIN + column * (NODE_WIDTH + GAP_X), MARGIN + row * (NODE_HEIGHT + GAP_Y))
        for object_id, (column, row) in cells.items()
    }
    boxes = tuple(Box(o, *at[o.id], shortened(o.name)) for o in objects)
    curves = tuple(
        Curve(a, _curve(at[a.read], at[a.reader]))
        for a in overview.arrows
        if a.read in at and a.reader in at
    )
    width = max((x for x, _ in at.values()), default=0) + NODE_WIDTH + MARGIN
    height = max((y for _, y in at.values()), default=0) + NODE_HEIGHT + MARGIN
    return Graph(width, height, boxes, curves)


def shortened(name: str) -> str:
    """A name that fits into a box: its beginning and its end, where names often differ.

    >>> shortened("orders"), shortened("daily_revenue_by_region_and_product")
    ('orders', 'daily_reven…_product')
    """
    if len(name) <= NAME_LETTERS_MAX:
        return name
    end = NAME_LETTERS_MAX // 3 + 1
    return f"{name[: NAME_LETTERS_MAX - end - 2]}…{name[-end:]}"


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1 = start[0] + NODE_WIDTH, start[1] + NODE_HEIGHT / 2
    x2, y2 = end[0], end[1] + NODE_HEIGHT / 2
    bend = max((x2 - x1) / 2, GAP_X / 2)
    return f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A refresh as a bar of a chart; ``value`` is None if it is unknown."""

    refresh: Refresh
    x: float
    y: float
    width: float
    height: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Bars:
    """A chart of refreshes, the oldest first, with the greatest and the middle value."""

    bars: tuple[Bar, ...]
    count: int  # the number of known values
    most: float
    median: float


def rows_of(refresh: Refresh) -> float | None:
    """The rows that a refresh inserted and deleted."""
    if refresh.rows_inserted is None or refresh.rows_deleted is None:
        return None
    return refresh.rows_inserted + refresh.rows_deleted


def bars(newest_first: Sequence[Refresh], values: Sequence[float | None]) -> Bars:
    """A chart with a bar for each refresh, on a linear scale from 0."""
    numbers = sorted(v for v in values if v is not None)
    most = numbers[-1] if numbers else 0.0
    median = numbers[len(numbers) // 2] if numbers else 0.0
    step = BARS_WIDTH / max(len(newest_first), 20)
    bar_list = []
    for n, (refresh, value) in enumerate(
        zip(reversed(newest_first), reversed(values), strict=True)
    ):
        height = BAR_HEIGHT_MIN
        if value and most:
            height = max(BARS_HEIGHT * value / most, BAR_HEIGHT_MIN)
        top = BARS_HEIGHT - height
        bar_list.append(Bar(refresh, round(n * step, 2), top, round(step * 0.8, 2), height, value))
    return Bars(tuple(bar_list), len(numbers), most, median)


def strategies(refreshes: Sequence[Refresh]) -> list[tuple[str, int]]:
    """The strategies and how often each was used, the most used first."""
    return sorted(Counter(r.strategy for r in refreshes).items(), key=lambda p: (-p[1], p[0]))


_SECONDS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def duration(seconds: float | None) -> str:
    """A duration with at most two units.

    >>> [duration(s) for s in (None, 0, 0.0123, 1.24, 59, 75, 7_260, 90_000)]
    ['–', '0 s', '12 ms', '1.2 s', '59 s', '1 min 15 s', '2 h 1 min', '1 d 1 h']
    """
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, unit, smaller, part in _SECONDS:
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {unit} {rest // smaller} {part}"
    return f"{seconds:.0f} s"


def brief(seconds: float) -> str:
    """A duration in one unit, for narrow places.

    >>> [brief(s) for s in (0.2, 59, 75, 7_260, 90_000)]
    ['200 ms', '59 s', '1 min', '2 h', '1 d']
    """
    return " ".join(duration(seconds).split()[:2])


def number(value: float | None) -> str:
    """A number of rows.

    >>> number(None), number(0), number(0.3), number(1234567)
    ('–', '0', '0.3', '1,234,567')
    """
    if value is None:
        return "–"
    if 0 < value < 10 and value != int(value):
        return f"{value:.1f}"
    return f"{value:,.0f}"


def size(count: float | None) -> str:
    """Bytes, in units of 1000.

    >>> size(None), size(12), size(1_500), size(2_340_000)
    ('–', '12 B', '1.5 kB', '2.3 MB')
    """
    return "–" if count is None else bytes_text(count, "B")


def instant(t: int | None) -> datetime | None:
    """The instant of a T; None if Python has no such date.

    >>> instant(0), instant(1 << 62)
    (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), None)
    """
    try:
        return None if t is None else datetime.fromtimestamp(t / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def clock_text(at: datetime) -> str:
    """An instant in UTC, without the zone.

    >>> clock_text(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    '2026-01-02 03:04:05'
    """
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def sentences(text: str) -> list[str]:
    """The sentences of a hint, to show one a line.

    >>> sentences("Mend it. Then type: ALTER CONTINUAL TASK t RETRY. See T 1.5 there.")
    ['Mend it.', 'Then type: ALTER CONTINUAL TASK t RETRY.', 'See T 1.5 there.']
    """
    return re.split(r"(?<=[.;]) (?=[A-Z])", text)


def slug(text: str) -> str:
    """A state, kind or strategy as a name in the style sheet.

    >>> slug("recompute and diff"), slug("up to date")
    ('recompute-and-diff', 'up-to-date')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
