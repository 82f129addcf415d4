"""Metrics over HTTP, and a reader of logs that never waits for the connection."""
