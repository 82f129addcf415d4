"""Databases of DuckDB in this process: without a disk, without a network, and bounded."""

import duckdb


def connect(threads: int) -> duckdb.DuckDBPyConnection:
    """An empty database; what does not fit its memory is an error, and for Spark to do."""
    return duckdb.connect(
        config={
            "threads": threads,
            "memory_limit": "1GB",
            "temp_directory": "",  # nothing is written to a disk
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
