"""Keeping tables fast and small: compaction, removal of old versions, and who still needs what."""
