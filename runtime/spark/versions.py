"""The releases of Spark that ctsql runs on; the only place that says so."""

Version = tuple[int, ...]

OLDEST: Version = (4, 0, 1)
"""Inclusive. The oldest release that Delta 4.4 runs on."""
NEWEST: Version = (4, 2, 0)
"""Inclusive. The newest release that the tests have run on."""


def parse(text: str) -> Version:
    """The numbers of a release.

    >>> parse("4.1.0.dev1"), parse("4.2.0")
    ((4, 1, 0), (4, 2, 0))
    """
    numbers = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def as_text(version: Version) -> str:
    """The numbers as a release is called."""
    return ".".join(map(str, version))


def untested(version: str) -> str:
    """A warning about a release of Spark outside the range; empty within it."""
    if OLDEST <= parse(version) <= NEWEST:
        return ""
    tested = f"{as_text(OLDEST)} to {as_text(NEWEST)}"
    return f"ctsql was tested with Spark {tested}, and this is Spark {version}"


def at_least(*version: int) -> bool:
    """Is the PySpark of this process, whose JVM is of the same release, as new as this or newer?"""
    from pyspark import __version__

    return parse(__version__) >= version
