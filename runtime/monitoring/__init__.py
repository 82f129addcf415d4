"""Status, system tables and metrics: past refreshes, failures and lag.

Everything is read from logs; nothing is computed by Spark, and nothing is written. The rows are
frozen dataclasses, so a page, a terminal or a query shows the same values.

    system_rows(reader, "refreshes")   the rows of a system table
    Pulse, Counts                      what a service does, reported by itself

``reader`` is any :class:`ctsql.runtime.log_reader.LogReader`: a local one needs no Spark and
raises NeedsSpark where logs on a local disk cannot tell.
"""
