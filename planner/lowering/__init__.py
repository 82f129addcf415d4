"""Translates plans to lazy DataFrames; the only part of the planner that imports Spark."""
