"""Databases of DuckDB in this process: without a disk, without a network, and bounded."""

import duckdb

_WRONG = ("deliminator", "expression_rewriter")
"""Optimizers that lose rows (seen in 1.5.5; tests/runtime/test_duck.py has the cases).

The first turns a correlated EXISTS with an inequality into a join that takes NULL for equal; the
second takes ``x IS DISTINCT FROM 1 OR x <> 1`` for a list of what x must not be, without NULL.
"""


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
