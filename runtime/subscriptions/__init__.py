"""Subscriptions: the changes of an object at each T, and the stored position of each reader.

May import ``engine`` and what is below it.
"""
