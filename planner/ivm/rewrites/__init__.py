"""Rewrites that read fewer columns or rows without changing results, and facts about nodes.

May import ``algebra``.
"""
