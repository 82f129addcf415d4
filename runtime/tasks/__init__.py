"""Continual tasks: finds the Ts at which a task is due, runs its body, commits the result.

May import ``warehouse`` and what is below it, and nothing from ``views``.
"""
