"""Statements on existing objects: find, refresh, run again."""
