"""Reads the log of one table, and commits to it exactly once.

Knows neither Spark nor Delta: the adapter in ``delta`` implements its protocol. May import
``planner`` and ``catalog``.
"""
