"""Subscriptions: what changed in an object at each T, and how far each reader has come.

May import ``engine`` and what is below it.
"""
