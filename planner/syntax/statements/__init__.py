"""Reads statements: one file a family of statements.

Short forms are compiled to the text of an ordinary continual task (and a view over it). What is
stored, shown by SHOW CREATE and explained is the compiled text: there is nothing that it does not
say. The statement as typed stands above it as a comment.

May import ``tokens`` and the values.
"""
