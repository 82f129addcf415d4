"""Short forms, each compiled to the text of an ordinary continual task (and views over it).

What is stored, shown by SHOW CREATE and explained is the compiled text: there is nothing that it
does not say. The statement as typed stands above it as a comment.

May import ``tokens`` and ``ast``.
"""
