"""Benchmarks: each is one command that compares ctsql with a named rival and prints ratios."""
