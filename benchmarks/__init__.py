"""Benchmarks: one command each, against a named rival, printing ratios."""
