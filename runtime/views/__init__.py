"""Materialized views: finds when a view is due, and refreshes it incrementally or fully.

May import ``warehouse`` and what is below it, and nothing from ``tasks``.
"""
