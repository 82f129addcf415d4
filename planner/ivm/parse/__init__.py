"""Parses a query into the nodes of a change plan, keeping the text of its expressions.

May import ``algebra`` and the token readers of ``planner.syntax``.
"""
