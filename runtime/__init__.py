"""Reads and writes everything durable, in rooms that import only lower rooms.

From top to bottom: ``statements`` and ``service``, ``maintenance``, ``subscriptions``, ``engine``,
``tasks`` and ``views``, ``warehouse``, ``delta``, ``rows``, ``log`` and ``spark``. The order is
checked by import-linter (pyproject.toml), and each room says what is in it.
"""
