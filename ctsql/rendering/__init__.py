"""Rows and errors as text, for terminals, files and pipes."""
