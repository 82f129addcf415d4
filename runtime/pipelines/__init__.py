"""Plans and applies the differences between a folder of SQL and a warehouse.

CREATE OR REPLACE is a folder of one definition.

Above ``statements``: it does what several statements do, for all objects at once.
"""
