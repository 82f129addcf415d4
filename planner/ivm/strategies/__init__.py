"""Strategies that compute a view's change with the help of stored rows.

May import ``rules`` and what is below it.
"""
