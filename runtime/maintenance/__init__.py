"""Compaction, removal of old versions, and which versions are still needed by whom.

May import ``subscriptions``, whose readers need old versions, and what is below it.
"""
