"""Starts and uses Spark: sessions, errors, job metrics, temporary views, query analysis.

Knows no table's log. May import ``planner`` and ``catalog``.
"""
