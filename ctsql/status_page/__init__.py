"""``ctsql serve``: a read-only status page of a warehouse, for people.

``lookup`` asks the logs, ``model`` holds the values that a page shows, ``layers``, ``drawing`` and
``charts`` place them, ``site`` makes HTML of them, and ``server`` serves it by threads of its own.
Nothing here writes, computes rows or runs a statement.
"""
