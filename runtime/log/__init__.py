"""Reads the log of one table, and commits to it exactly once.

Imports neither Spark nor Delta: ``runtime/delta`` implements its protocol.
"""
