"""Statements: a module for each family reads its statements from tokens."""
