"""Reads and writes Delta tables: data files, change feeds, transactions, maintenance."""
