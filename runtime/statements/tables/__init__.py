"""ALTER TABLE, and the readers of a table's columns."""
