"""``ctsql serve``: a read-only web page with the status of a warehouse.

``lookup`` asks the logs, ``model`` holds the values that a page shows, ``layers``, ``drawing`` and
``charts`` place them, ``site`` makes HTML of them, and ``server`` serves it in its own threads.
Nothing here writes, computes rows or runs a statement.
"""
