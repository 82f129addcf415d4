"""The releases of Spark and Delta that ctsql runs on, and the import of PySpark."""

import threading
from importlib import import_module

VersionNumber = tuple[int, ...]

OLDEST: VersionNumber = (4, 0, 1)  # inclusive. The oldest release that Delta 4.4 runs on.
NEWEST: VersionNumber = (4, 2, 0)  # inclusive. The newest release that the tests have run on.
DELTA: VersionNumber = (4, 4)  # with any patch; the tests have run on no other


def parse(text: str) -> VersionNumber:
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


def as_text(version: VersionNumber) -> str:
    """The name of a release."""
    return ".".join(map(str, version))


TESTED = f"Spark {as_text(OLDEST)} to {as_text(NEWEST)} with Delta {as_text(DELTA)}"


def untested(spark: str, delta: str) -> str:
    """A warning about untested releases, builds of others, and another PySpark; else empty."""
    python = pyspark_release()
    is_pythons = parse(spark)[:2] == parse(python)[:2]
    is_apache = spark.replace(".", "").isdigit() and OLDEST <= parse(spark) <= NEWEST
    if is_pythons and is_apache and parse(delta)[: len(DELTA)] == DELTA:
        return ""
    found = spark if is_pythons else f"{spark} under PySpark {python}"
    return f"ctsql was tested with {TESTED}, and this is Spark {found} with Delta {delta}"


def at_least(*version: int) -> bool:
    """Whether this process's PySpark, and so its JVM, is of this release or a later one."""
    return parse(pyspark_release()) >= version


def pyspark_release() -> str:
    """The release of PySpark in this process; pip does not know of a vendor's, or of another."""
    import_pyspark()
    from pyspark import __version__

    return str(__version__)


_LOCK = threading.RLock()


def import_pyspark() -> None:
    """Import PySpark, or wait until another thread has; starts no Spark.

    A thread that imports a module of PySpark while another thread imports the package fails with
    ``_DeadlockError``. Code that may be the first to import PySpark calls this before.
    """
    with _LOCK:
        import_module("pyspark")
