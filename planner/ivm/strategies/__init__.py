"""Ways to update a view's rows by means of stored rows.

May import ``rules`` and what is below it.
"""
