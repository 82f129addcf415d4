"""The sink of materialized views: when a view is due, and how a refresh follows the changes.

May import ``warehouse`` and what is below it, and nothing from ``tasks``.
"""
