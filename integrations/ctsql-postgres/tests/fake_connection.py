"""A connection without Spark: DuckDB runs the statements; also a program that serves it."""

import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import duckdb

from ctsql import Relation
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Source
from ctsql.results.result import Result

_TYPES = {
    "INTEGER": "int", "BIGINT": "bigint", "SMALLINT": "smallint", "TINYINT": "tinyint",
    "VARCHAR": "string", "BOOLEAN": "boolean", "DOUBLE": "double", "FLOAT": "float", "BLOB":
    "binary", "DATE": "date", "TIMESTAMP": "timestamp_ntz", "TIMESTAMP WITH TIME ZONE": "timestamp",
    "INTERVAL": "interval day to second", "TIME": "time",
}  # fmt: skip
KINDS = {"v": "view", "mv": "materialized view", "ct": "continual task"}
"""Of relations with these names."""
COMMENTS = {"k": "the key", "orders": "what was bought"}


def spark_type(kind: str) -> str:
    """Spark's name of a type of DuckDB."""
    if kind.endswith("[]"):
        return f"array<{spark_type(kind[:-2])}>"
    if kind.startswith("DECIMAL"):
        return kind.lower()
    return _TYPES.get(kind, kind.lower())


def _duckdb(sql: str) -> str:
    """Spark's spelling as DuckDB reads it."""
    sql = re.sub(r"\\(.)", lambda m: "''" if m[1] == "'" else m[1], sql, flags=re.DOTALL)
    return sql.replace("`", '"').replace("TIMESTAMP_NTZ '", "TIMESTAMP '")


def lost() -> CtsqlError:
    """The error of a connection whose JVM is gone."""
    return error("SPARK_ERROR", message="the connection to Spark was lost")


class FakeConnection:
    """Runs SQL with DuckDB; SLOW waits until it is cancelled, BAD fails at its second word.

    After LOST it cannot even be closed.
    """

    def __init__(self, database: Any = None, *, read_only: bool = False) -> None:
        self._database = database or duckdb.connect(":memory:")
        self.read_only = read_only
        self.search_schema, self.warehouse, self.started = "default", "shop", False
        self.in_transaction = self.is_closed = False
        self._cancelled = threading.Event()
        self.ran: list[str] = []
        self.duplicates: list[FakeConnection] = []

    def duplicate(self) -> "FakeConnection":
        other = FakeConnection(self._database.cursor(), read_only=self.read_only)
        self.duplicates.append(other)
        return other

    def start(self) -> None:
        """Nothing is to be started."""

    def close(self) -> None:
        if "LOST" in self.ran:
            raise lost() from ConnectionError()
        self.rollback()
        self.is_closed = True

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        if self.in_transaction:
            self.execute("ROLLBACK")

    def cancel(self) -> None:
        self._cancelled.set()

    def relations(self) -> list[Relation]:
        """The tables of DuckDB, and two views."""
        found = self._database.execute(
            "SELECT schema_name, table_name, list([column_name, data_type, is_nullable::VARCHAR])"
            " FROM duckdb_columns() WHERE NOT internal GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        return [
            Relation(
                schema="default" if schema == "main" else schema,
                name=name,
                kind=KINDS.get(name, "table"),
                columns=tuple(
                    Column(column, spark_type(kind), nullable == "true", COMMENTS.get(column))
                    for column, kind, nullable in columns
                ),
                comment=COMMENTS.get(name),
                definition=f"CREATE {KINDS.get(name, 'table').upper()} {name}",
                id=f"{schema}.{name}",
            )
            for schema, name, columns in found
        ]

    def execute(self, sql: str, parameters: Sequence[object] | None = None) -> Result:
        self._cancelled.clear()
        self.ran.append(sql)
        word = sql.split()[0].upper()
        if word == "SLOW":
            if self._cancelled.wait(20):
                raise error("STATEMENT_CANCELLED")
            return Result.of_status("SLOW")
        if word == "BAD":
            at = sql.split(maxsplit=1)[1]
            start = sql.index(at)
            span = Source(sql).whole().part(start, start + len(at))
            raise error("UNKNOWN_RELATION", span=span, kind="table", name=at, hint="Mend it.")
        if word == "LOST":
            raise lost() from ConnectionError()
        if word in ("RESET", "USE", "SET"):
            return Result.of_status(word)
        if word in ("BEGIN", "COMMIT", "ROLLBACK"):
            self.in_transaction = word == "BEGIN"
        try:
            done = self._database.execute(_duckdb(sql), parameters or [])
        except duckdb.Error as problem:
            raise error("INVALID_STATEMENT", span=None, message=str(problem)) from problem
        if word == "WITH" and "INSERT" in sql:
            word = "INSERT"
        if word in ("SELECT", "WITH", "VALUES"):
            columns = [one[0] for one in done.description]
            types = [spark_type(str(one[1])) for one in done.description]
            return Result.of_rows(columns, types, done.fetchall())
        if word in ("INSERT", "UPDATE", "DELETE"):
            (count,) = done.fetchone()
            return Result.of_status(f"{word}{' 0' if word == 'INSERT' else ''} {count}", count)
        return Result.of_status(" ".join(sql.split()[:2]).upper())


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until it holds, at most 10 seconds."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


if __name__ == "__main__":
    from ctsql_postgres import serving

    with serving(FakeConnection(), port=int(sys.argv[1])) as running:
        print(running.port, flush=True)  # noqa: T201
        time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 1e6)
