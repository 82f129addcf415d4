"""The implementation of each statement, one file for a statement or a family.

May import every room but ``service``.
"""
