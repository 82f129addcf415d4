"""Reads and writes Delta tables: data files, change feeds, transactions, maintenance.

Only this room reads Delta's log, touches its classes, and commits.
"""
