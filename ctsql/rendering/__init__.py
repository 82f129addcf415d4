"""Rows and errors as texts, for terminals, files and pipes."""
