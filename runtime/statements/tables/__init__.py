"""ALTER TABLE, and who reads what it changes."""
