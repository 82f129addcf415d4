"""Rewrites of a node that keep its rows: fewer columns, only certain keys; and facts about a node.

May import ``algebra``.
"""
