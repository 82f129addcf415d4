"""Status, system tables and metrics: past refreshes, failures and lag.

Everything is read from logs; nothing is computed by Spark, and nothing is written. Rows are frozen
dataclasses, so a page, a terminal or a query shows the same values.

    system_rows(reader, "refreshes")   the rows of a system table
    Pulse, Counts                      a service's own report

``reader`` is any :class:`ctsql.runtime.log_reader.LogReader`; a local one raises NeedsSpark if logs
on a local disk are not enough.
"""
