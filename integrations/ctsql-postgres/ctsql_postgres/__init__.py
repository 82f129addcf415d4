"""Serves a ctsql warehouse to clients of PostgreSQL: ``ctsql serve --postgres [HOST:]PORT``."""

from ctsql_postgres.server import Running, serving

__all__ = ["Running", "serving"]
