"""A layered layout of a graph: what is read is left of what reads it. Pure.

Layers are longest paths from the objects that read nothing. An object that nothing forces to the
left is moved next to its nearest reader. Within a layer, objects are ordered by the mean place of
their neighbours, in sweeps from left to right and back, so that few lines cross. Connected parts
are placed one below the other, the largest first, objects without lines last. A layer with many
objects is wrapped into several columns. Each sweep is linear in objects and lines.

Source: Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (1981), without dummy nodes: a line over several layers is drawn behind the objects.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Edge = tuple[str, str]  # from what is read to what reads it

SWEEPS = 4
COLUMN_ROWS_MIN = 12  # a layer is wrapped only if it has more objects than this
LOOSE_COLUMNS_MIN = 4


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell of the grid: column and row, from 0. Rows may be halves, to centre a layer."""

    column: int
    row: float


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Where each object is, and the size of the grid."""

    places: Mapping[str, GridCell]
    columns: int
    rows: float


def layout(names: Sequence[str], lines: Iterable[Edge]) -> GraphLayout:
    """Place objects.

    >>> made = layout(["a", "b", "c"], [("a", "b")])
    >>> made.places["a"], made.places["b"], made.places["c"]
    (GridCell(column=0, row=0.0), GridCell(column=1, row=0.0), GridCell(column=0, row=1.0))

    Args:
        names: each once. lines: between names; lines from an object to itself, and lines that
            would close a cycle, have no effect.
    """
    names_there = set(names)
    edges = sorted({(a, b) for a, b in lines if a != b and a in names_there and b in names_there})
    parts = _parts(names, edges)
    loose = sorted(n for part in parts if len(part) == 1 for n in part)
    places: dict[str, GridCell] = {}
    columns, row = 0, 0.0
    for part in sorted((p for p in parts if len(p) > 1), key=lambda p: (-len(p), min(p))):
        inside = set(part)
        part_layout = _place_part(part, [one for one in edges if one[0] in inside])
        for name, place in part_layout.places.items():
            places[name] = GridCell(place.column, row + place.row)
        columns, row = max(columns, part_layout.columns), row + part_layout.rows
    wide = max(columns, LOOSE_COLUMNS_MIN)
    for number, name in enumerate(loose):
        places[name] = GridCell(number % wide, row + number // wide)
    if loose:
        columns, row = max(columns, min(len(loose), wide)), row + math.ceil(len(loose) / wide)
    return GraphLayout(places, columns, row)


def _parts(names: Sequence[str], lines: Sequence[Edge]) -> list[list[str]]:
    near: dict[str, set[str]] = defaultdict(set)
    for a, b in lines:
        near[a].add(b)
        near[b].add(a)
    parts, seen_names = [], set[str]()
    for name in names:
        if name in seen_names:
            continue
        seen_names.add(name)
        part, waiting = [], [name]
        while waiting:
            one = waiting.pop()
            part.append(one)
            new = near[one] - seen_names
            seen_names |= new
            waiting += sorted(new)
        parts.append(sorted(part))
    return parts


def _place_part(names: Sequence[str], lines: Sequence[Edge]) -> GraphLayout:
    layers = _order(_layers(names, lines), lines)
    rows_max = max(COLUMN_ROWS_MIN, math.ceil(1.3 * math.sqrt(len(names))))
    columns: list[list[str]] = []
    for layer in layers:
        count = math.ceil(len(layer) / rows_max)
        height = math.ceil(len(layer) / count)
        columns += [layer[n * height : (n + 1) * height] for n in range(count)]
    height = max(len(column) for column in columns)
    places = {
        name: GridCell(x, (height - len(column)) / 2 + y)
        for x, column in enumerate(columns)
        for y, name in enumerate(column)
    }
    return GraphLayout(places, len(columns), float(height))


def _layers(names: Sequence[str], lines: Sequence[Edge]) -> list[list[str]]:
    """The objects of each layer, in order of name."""
    order = _in_order(names, lines)
    at = {name: n for n, name in enumerate(order)}
    reads, readers = defaultdict(list), defaultdict(list)
    for a, b in lines:
        if at[a] < at[b]:
            reads[b].append(a)
            readers[a].append(b)
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = max((depth[r] + 1 for r in reads[name]), default=0)
    for name in reversed(order):
        if readers[name] and not reads[name]:
            depth[name] = min(depth[r] for r in readers[name]) - 1
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in sorted(names):
        layers[depth[name]].append(name)
    return [layer for layer in layers if layer]


def _in_order(names: Sequence[str], lines: Sequence[Edge]) -> list[str]:
    """The objects in order: those that are read first; in a cycle by name."""
    waits = dict.fromkeys(names, 0)
    readers: dict[str, list[str]] = defaultdict(list)
    for a, b in lines:
        waits[b] += 1
        readers[a].append(b)
    order: list[str] = []
    ready = sorted((n for n in names if waits[n] == 0), reverse=True)
    rest = dict.fromkeys(sorted(names))
    while rest:
        name = ready.pop() if ready else next(iter(rest))
        if name not in rest:
            continue
        del rest[name]
        order.append(name)
        for reader in readers[name]:
            waits[reader] -= 1
            if waits[reader] == 0:
                ready.append(reader)
    return order


def _order(layers: list[list[str]], lines: Sequence[Edge]) -> list[list[str]]:
    """The layers, each in an order in which few lines cross."""
    near: dict[str, list[str]] = defaultdict(list)
    for a, b in lines:
        near[a].append(b)
        near[b].append(a)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        place = _places(layers)
        earlier: set[str] = set()
        for n in range(len(layers)) if forward else reversed(range(len(layers))):
            neighbour_places = {
                name: [place[x] for x in near[name] if x in earlier] for name in layers[n]
            }
            mean = {
                name: (
                    sum(near_places) / len(near_places) if near_places else place[name],
                    place[name],
                )
                for name, near_places in neighbour_places.items()
            }
            layers[n] = sorted(layers[n], key=mean.__getitem__)
            place |= _places([layers[n]])
            earlier.update(layers[n])
    return layers


def _places(layers: Sequence[Sequence[str]]) -> dict[str, float]:
    """The relative height of each object in its layer, from 0 to 1."""
    return {name: (y + 0.5) / len(layer) for layer in layers for y, name in enumerate(layer)}
