"""Delta's classes and the files of tables: reading, changes, writing, transactions, maintenance.

Nothing outside this room commits to Delta's log or reads it. May import ``rows`` and what is below
it.
"""
