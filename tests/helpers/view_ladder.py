"""Views that read each other in several ways: there are more ways down than one can follow."""

from ctsql.catalog.items import Item, ObjectKind, Reading
from ctsql.catalog.names import Name
from tests.helpers.items import an_item


def view_ladder(depth: int) -> dict[str, Item]:
    """Objects by id, each a view over the two before it; the first is a table."""
    return {f"i{n}": _item(n) for n in range(depth)}


def _item(number: int) -> Item:
    reads = tuple(
        Reading(name=Name("default", f"i{n}"), object_id=f"i{n}", columns=())
        for n in (number - 1, number - 2)
        if n >= 0
    )
    kind = ObjectKind.MATERIALIZED_VIEW if number else ObjectKind.TABLE
    return an_item(
        id=f"i{number}", kind=kind, name=Name("default", f"i{number}"), columns=(), reads=reads
    )
