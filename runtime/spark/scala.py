"""Scala's objects, collections and classes over the gateway."""

from collections.abc import Iterator
from typing import Any


def singleton(package: Any, name: str) -> Any:
    """The instance of a Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def scala_items(collection: Any) -> Iterator[Any]:
    """The items of a Scala collection."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def class_name(thing: Any) -> str:
    """The name of an object's class, without its package."""
    return str(thing.getClass().getSimpleName())
