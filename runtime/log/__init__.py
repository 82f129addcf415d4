"""The log of one table as plain values, and exactly-once commits over it.

Knows neither Spark nor Delta: the adapter in ``delta`` implements its protocol. May import
``planner`` and ``catalog``.
"""
