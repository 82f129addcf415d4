"""Compacts files, and removes old table versions that no task, view or reader still needs."""
