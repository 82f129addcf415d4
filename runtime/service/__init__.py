"""The loop that keeps every output up to date: workers, pauses, events, maintenance."""
