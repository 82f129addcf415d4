"""What the warehouse has done and how far it is: status, system tables, savings and metrics.

Everything is read from logs; nothing is computed by Spark, and nothing is written. The rows are
frozen dataclasses, so a page, a terminal or a query shows the same values.
"""
