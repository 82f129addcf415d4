"""The relational algebra of change plans: nodes, their traversal, Spark's functions, reasons.

May import nothing else of ``ivm``.
"""
