"""The order in which things come that need each other. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Key = TypeVar("Key")


def behind_needs(keys: Iterable[Key], needs: Callable[[Key], Iterable[Key]]) -> list[Key]:
    """Some keys and all that they need, each once and behind what it needs.

    What needs itself, directly or in a circle, is behind the rest of what it needs. A chain may be
    as long as it likes: none of Python's calls are nested for it.

    >>> behind_needs("ab", {"a": "cb", "b": "c", "c": "c"}.get)
    ['c', 'b', 'a']
    """
    visited_keys: set[Key] = set()
    order: list[Key] = []

    def meet(key: Key) -> tuple[Key, Iterator[Key]]:
        visited_keys.add(key)
        return key, iter(needs(key))

    for first in keys:
        open_ones = [] if first in visited_keys else [meet(first)]
        while open_ones:
            key, rest = open_ones[-1]
            other = next((o for o in rest if o not in visited_keys), None)
            if other is None:
                order.append(key)
                open_ones.pop()
            else:
                open_ones.append(meet(other))
    return order
