"""Runs a script and reports on it, for the command line, the shell and tests."""
