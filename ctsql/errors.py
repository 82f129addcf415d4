"""The public error classes, defined in :mod:`ctsql.catalog.errors`."""

from ctsql.catalog.errors import (
    CatalogError as CatalogError,
    CommitLost as CommitLost,
    CommitUnknown as CommitUnknown,
    CtsqlError as CtsqlError,
    DatabaseError as DatabaseError,
    DataError as DataError,
    EnvironmentProblem as EnvironmentProblem,
    Error as Error,
    IntegrityError as IntegrityError,
    InterfaceError as InterfaceError,
    InternalError as InternalError,
    NotSupported as NotSupported,
    NotSupportedError as NotSupportedError,
    OperationalError as OperationalError,
    ProgrammingError as ProgrammingError,
    StatementError as StatementError,
    UpperMismatch as UpperMismatch,
)
