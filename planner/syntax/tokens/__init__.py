"""SQL text below statements: tokens, cutting, replacing, and how operators bind.

May import the values of statements (``ast``).
"""
