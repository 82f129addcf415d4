"""Starts sessions of Spark, with their settings."""
