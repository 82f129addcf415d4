"""Translates exceptions of Spark and of stores into ctsql's errors."""
