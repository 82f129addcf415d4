"""Views that read each other in several ways: there are more ways down than one can follow."""

from ctsql.catalog.items import Item, ObjectKind
from tests.helpers.items import an_item, reading


def view_ladder(depth: int) -> dict[str, Item]:
    """Objects by id, each a view over the two before it; the first is a table."""
    return {f"i{n}": _item(n) for n in range(depth)}


def _item(number: int) -> Item:
    reads = tuple(reading(f"i{n}") for n in (number - 1, number - 2) if n >= 0)
    kind = ObjectKind.MATERIALIZED_VIEW if number else ObjectKind.TABLE
    return an_item(kind, f"i{number}", reads=reads)
