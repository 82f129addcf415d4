"""A folder of SQL as the state of a warehouse: what would change, and the change.

Above ``statements``: it does what several of these do, for all objects at once.
"""
