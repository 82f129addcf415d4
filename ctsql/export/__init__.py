"""Metrics over HTTP, and a log reader that does not wait for the connection's lock."""
