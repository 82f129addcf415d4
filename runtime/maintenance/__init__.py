"""Compacts files, and removes old table versions that no task, view or reader still needs.

May import ``subscriptions``, whose readers need old versions, and what is below it.
"""
