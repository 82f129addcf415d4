"""What each statement does: one file a statement or a family of statements.

May import every room but ``service``.
"""
