"""PySpark is imported when it is first needed, by one thread.

Its package imports its own modules. A thread that asks for one of these while another one imports
the package waits for that one, which waits for the module: Python ends one of them with
``_DeadlockError``. Whatever may be the first to import PySpark, in a process where another thread
may be so, too, calls this before.
"""

import threading
from importlib import import_module

_LOCK = threading.RLock()


def import_pyspark() -> None:
    """Import PySpark, or wait until the thread that does has done so; starts no Spark."""
    with _LOCK:
        import_module("pyspark")
