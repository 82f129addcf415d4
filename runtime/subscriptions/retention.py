"""Which versions of tables named readers still need. Pure: no log, no store.

A reader at position P reads the contents as of P - 1 (or P, when it begins with the contents) and
every change after it, so that of each table it reads from the version of that T must stay, and
all that came after it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RetentionNeed:
    """A consumer needs an object's table from a version on; the least need decides.

    Attributes:
        version: the oldest version needed. since: the T that it is needed as of.
        consumer: a reader or an output, as text: ``subscription 'nightly'``.
        object_id: whose table.
    """

    version: int
    since: int
    consumer: str
    object_id: str


def needed_versions(
    readers: Iterable[tuple[str, Sequence[str], int]],
    version_at: Callable[[str, int], int | None],
) -> list[RetentionNeed]:
    """What the readers need.

    >>> needed_versions([("subscription 'a'", ["t"], 41)], lambda object_id, at: at // 10)
    [RetentionNeed(version=4, since=41, consumer="subscription 'a'", object_id='t')]

    Args:
        readers: of each its name, the objects it reads from, and the T it needs them as of.
        version_at: the version of an object's table at a T; None before it had one, and then
            the table is needed from its first version on.
    """
    found = []
    for consumer, object_ids, since in readers:
        for object_id in object_ids:
            version = version_at(object_id, since)
            found.append(
                RetentionNeed(
                    object_id=object_id,
                    version=0 if version is None else version,
                    since=since,
                    consumer=consumer,
                )
            )
    return found
