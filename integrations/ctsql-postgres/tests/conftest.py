"""A server over a connection without Spark."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from ctsql_postgres import serving
from fake_connection import FakeConnection


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    connection: FakeConnection
    port: int

    @property
    def conninfo(self) -> str:
        """How libpq's clients name it."""
        return f"host=127.0.0.1 port={self.port} user=me dbname=shop"

    def connect(self, **options: object) -> psycopg.Connection:
        """A client."""
        return psycopg.connect(self.conninfo, autocommit=True, **options)


@pytest.fixture
def served() -> Iterator[Served]:
    """A server of DuckDB in memory."""
    connection = FakeConnection()
    with serving(connection) as running:
        yield Served(connection, running.port)
