"""Databases of DuckDB in this process: without a disk, without a network, and bounded."""

import duckdb

_WRONG = ("deliminator", "expression_rewriter", "statistics_propagation")
"""Optimizers with which DuckDB 1.5.5 gave wrong rows (tests/runtime/test_duck.py has cases)."""


def connect(threads: int) -> duckdb.DuckDBPyConnection:
    """An empty database; what does not fit its memory is an error, and for Spark to do."""
    return duckdb.connect(
        config={
            "threads": threads,
            "memory_limit": "1GB",
            "temp_directory": "",  # nothing is written to a disk
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "disabled_optimizers": ",".join(_WRONG),
        }
    )


def connect_plainly() -> duckdb.DuckDBPyConnection:
    """An empty database that runs a query as it is written, on one thread.

    Its optimizers are not trusted with queries of any shape: each of three was seen to lose rows or
    to give too many where NULL is compared. Few rows need none of them.
    """
    connection = connect(threads=1)
    connection.execute("PRAGMA disable_optimizer")
    return connection
