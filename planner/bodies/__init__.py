"""Analyses a task's body: the inputs and references it reads, and when it is due. Pure.

EXPLAIN and all ways to run a body use this analysis.
"""
