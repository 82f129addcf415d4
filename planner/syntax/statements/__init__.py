"""Reads statements: one file a family of statements.

May import ``tokens``, ``desugar`` (the text that a short form stands for) and the values.
"""
