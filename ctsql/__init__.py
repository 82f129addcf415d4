"""ctsql: continual tasks and materialized views in SQL, on Spark and Delta Lake.

    import ctsql
    con = ctsql.connect("warehouse")
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 2)")
    con.execute("SELECT * FROM t WHERE k = ?", [1]).fetchall()      # [(1, 2)]

Names are imported on first use (PEP 562): importing a part of the package, such as the planner,
imports no Spark.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctsql.api import Connection, connect, execute
    from ctsql.catalog.errors import (
        CatalogError,
        CommitLost,
        CommitUnknown,
        CtsqlError,
        DatabaseError,
        DataError,
        EnvironmentProblem,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupported,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        StatementError,
        UpperMismatch,
    )
    from ctsql.connection.questions import Relation
    from ctsql.connection.writer import Writer
    from ctsql.results.result import Result, Row
    from ctsql.results.subscription import Subscription

# PEP 249.
apilevel = "2.0"
threadsafety = 2  # threads may share the module and connections
paramstyle = "qmark"

__version__ = "0.1.0"

_HOMES = {
    "Connection": "ctsql.api",
    "connect": "ctsql.api",
    "execute": "ctsql.api",
    "Relation": "ctsql.connection.questions",
    "Result": "ctsql.results.result",
    "Row": "ctsql.results.result",
    "Subscription": "ctsql.results.subscription",
    "Writer": "ctsql.connection.writer",
}

__all__ = [
    "CatalogError", "CommitLost", "CommitUnknown", "Connection", "CtsqlError", "DataError",
    "DatabaseError", "EnvironmentProblem", "Error", "IntegrityError", "InterfaceError",
    "InternalError", "NotSupported", "NotSupportedError", "OperationalError", "ProgrammingError",
    "Relation", "Result", "Row", "StatementError", "Subscription", "UpperMismatch", "Warning",
    "Writer",
    "__version__", "apilevel", "connect", "execute", "paramstyle", "threadsafety",
]  # fmt: skip


class Warning(UserWarning):
    """PEP 249: important warnings."""


def __dir__() -> list[str]:
    """The names that Tab completes; names that were not used yet are not in the module's dict."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ctsql' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "ctsql.catalog.errors")), name)
