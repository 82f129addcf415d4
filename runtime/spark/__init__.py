"""The JVM process: start, sessions, errors, job metrics, temporary views, analysis of queries.

Knows no table's log. May import ``planner`` and ``catalog``.
"""
