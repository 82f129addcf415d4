"""The implementation of each statement, one file for a statement or a family."""
