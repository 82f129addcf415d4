"""Row sets in the driver or in Spark: bounded collection, and differences of multisets.

Knows no table. May import ``spark``, ``log`` and what is below them.
"""
