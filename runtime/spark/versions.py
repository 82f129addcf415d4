"""The releases of Spark that ctsql runs on; the only place that says so."""

import pyspark

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


PYSPARK: Version = parse(pyspark.__version__)
"""The release of PySpark in this process, which is that of its JVM too."""
