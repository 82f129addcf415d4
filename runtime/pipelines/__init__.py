"""Plans and applies the differences between a folder of SQL and a warehouse.

Above ``statements``: it does what several statements do, for all objects at once.
"""
