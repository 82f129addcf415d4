"""Recipes over real data: SQL scripts, and the loader of the data they begin from."""
