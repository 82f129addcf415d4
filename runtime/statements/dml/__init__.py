"""Rows that are written: INSERT, UPDATE, DELETE, MERGE, COPY and transactions."""
