"""Change plans as SQL text.

May import ``rules`` and what is below it.
"""
