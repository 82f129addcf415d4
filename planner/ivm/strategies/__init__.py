"""Ways to bring the rows of a view up to date with the help of rows that are stored.

May import ``rules`` and what is below it.
"""
