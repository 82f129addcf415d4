"""Delta's classes and the files of tables: reading, changes, writing, transactions, maintenance.

Only this room reads Delta's log, touches its classes, and commits.
"""
