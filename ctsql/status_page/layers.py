"""A layered layout of a graph: what is read is left of what reads it. Pure.

Layers are longest paths from the objects that read nothing; these are next to their nearest reader.
Within a layer, objects are ordered by the mean place of their neighbours, so that few lines cross.
A layer with many objects is wrapped into several columns. Connected parts are placed one below the
other, the largest first, objects without lines last.

Source: Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures" (1981), without dummy nodes: a line over several layers is drawn behind the objects.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

COLUMN_ROWS_MIN = 12  # a layer is wrapped only if it has more objects than this
SWEEPS = 4
Near = Mapping[str, set[str]]
Cell = tuple[int, float]
"""A column and a row of the grid, from 0. Rows may be halves, to centre a layer."""


def layout(names: Sequence[str], lines: Iterable[tuple[str, str]]) -> dict[str, Cell]:
    """Place objects, each in its own cell; a cycle is cut at its first name.

    >>> layout(["a", "b", "c", "d"], [("a", "b"), ("a", "c")])
    {'a': (0, 0.5), 'b': (1, 0.0), 'c': (1, 1.0), 'd': (0, 2.0)}

    Args:
        names: each once. lines: from what is read to what reads it; others have no effect.
    """
    reads: dict[str, set[str]] = {name: set() for name in names}
    readers: dict[str, set[str]] = {name: set() for name in names}
    part_of = {name: {name} for name in names}
    for read, reader in lines:
        if read != reader and read in reads and reader in reads:
            reads[reader].add(read)
            readers[read].add(reader)
            both = part_of[read] | part_of[reader]
            part_of |= dict.fromkeys(both, both)
    parts = [
        [n for n in names if part_of[n] is p] for p in {id(p): p for p in part_of.values()}.values()
    ]
    joined = sorted((p for p in parts if len(p) > 1), key=len, reverse=True)
    cells, top = dict[str, Cell](), 0
    for part in (*joined, [p[0] for p in parts if len(p) == 1]):
        columns = _columns(_layers(part, reads, readers), reads, readers)
        height = max(map(len, columns), default=0)
        for x, column in enumerate(columns):
            middle = top + (height - len(column)) / 2
            cells |= {name: (x, middle + y) for y, name in enumerate(column)}
        top += height
    return cells


def _layers(names: Iterable[str], reads: Near, readers: Near) -> list[list[str]]:
    rest, depth = dict.fromkeys(names), dict[str, int]()
    step = 0
    while rest:
        layer = [name for name in rest if not reads[name] & rest.keys()] or [next(iter(rest))]
        depth |= dict.fromkeys(layer, step)
        for name in layer:
            del rest[name]
        step += 1
    for name in depth:
        if readers[name] and not reads[name]:
            depth[name] = min(depth[reader] for reader in readers[name]) - 1
    return [[name for name, at in depth.items() if at == n] for n in range(step)]


def _columns(layers: list[list[str]], reads: Near, readers: Near) -> list[list[str]]:
    """The layers, each in an order in which few lines cross, and in columns that are not long."""
    height = dict[str, float]()
    for sweep in range(SWEEPS + 1):
        near, order = (readers, layers[::-1]) if sweep % 2 else (reads, layers)
        for layer in order:
            if sweep:
                mean = {n: fmean(height[x] for x in near[n] or [n]) for n in layer}
                layer.sort(key=mean.__getitem__)
            height |= {name: (y + 0.5) / len(layer) for y, name in enumerate(layer)}
    rows_max = max(COLUMN_ROWS_MIN, math.ceil(1.3 * math.sqrt(sum(map(len, layers)))))
    columns = list[list[str]]()
    for layer in layers:
        size = math.ceil(len(layer) / math.ceil(len(layer) / rows_max))
        columns += [layer[at : at + size] for at in range(0, len(layer), size)]
    return columns
