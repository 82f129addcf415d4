"""Starts and uses Spark: sessions, errors, job metrics, temporary views, query analysis."""
