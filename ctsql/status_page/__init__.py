"""``ctsql serve``: a read-only web page with the status of a warehouse.

``lookup`` reads the logs, ``model`` holds the values that a page shows, ``layers`` and ``drawing``
place them, and ``site`` serves them as HTML, in its own threads.
"""
