"""Telling a person what does not work: of each kind the first only."""

from collections.abc import Callable


def tell_once(about: str, tell: Callable[[str], None]) -> Callable[[str, str], None]:
    """What takes a kind and a text, and tells the first text of each kind.

    Args:
        about: stands in front of each text.
    """
    keys = set[str]()

    def once(kind: str, text: str) -> None:
        if kind not in keys:
            keys.add(kind)
            tell(f"{about}: {text}; more of the kind are not shown")

    return once
