"""The sink of continual tasks: when a task is due, how its body runs, what it commits.

May import ``warehouse`` and what is below it, and nothing from ``views``.
"""
