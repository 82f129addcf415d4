"""Calls the handler of each kind of statement, with the connection's settings and variables."""
