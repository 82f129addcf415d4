"""The public names of ctsql's errors; they are defined in :mod:`ctsql.catalog.errors`."""

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
)

__all__ = [
    "CatalogError",
    "CommitLost",
    "CommitUnknown",
    "CtsqlError",
    "DataError",
    "DatabaseError",
    "EnvironmentProblem",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupported",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "StatementError",
]
