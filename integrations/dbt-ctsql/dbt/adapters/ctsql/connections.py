"""Connections of dbt's threads to one warehouse, in this process.

ctsql starts one SparkSession for the process. Each of dbt's threads has a ctsql connection, so
models run at the same time. dbt closes a connection after each model; the pool keeps it for the
next one.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from dbt.adapters.contracts.connection import (
    AdapterResponse,
    Connection,
    ConnectionState,
    Credentials,
)
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError

import ctsql


@dataclass
class CtsqlCredentials(Credentials):
    """A target of ``profiles.yml``.

    Attributes:
        path: the warehouse: a folder, or any URI that Spark can write.
        master: where ctsql starts Spark; by default ``local[*]``.
    """

    database: str = "warehouse"
    schema: str = "default"
    path: str = "warehouse"
    master: str | None = None

    @property
    def type(self) -> str:
        """The adapter's name in ``profiles.yml``."""
        return "ctsql"

    @property
    def unique_field(self) -> str:
        """What dbt hashes to count users: the warehouse."""
        return self.path

    def _connection_keys(self) -> tuple[str, ...]:
        return ("path", "master", "database", "schema")


class Pool:
    """The open connections of this process that no thread uses, by target."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[tuple[str, str | None], list[ctsql.Connection]] = defaultdict(list)

    def take(self, target: CtsqlCredentials) -> ctsql.Connection:
        """A connection for one thread, an open one if there is one."""
        with self._lock:
            free = self._free[target.path, target.master]
            if free:
                return free.pop()
        return ctsql.connect(target.path, master=target.master)

    def give_back(self, target: CtsqlCredentials, handle: ctsql.Connection) -> None:
        """Keep a connection for the next thread, without the settings of a model's header."""
        handle.rollback()
        handle.execute("RESET ALL; USE `default`")
        with self._lock:
            self._free[target.path, target.master].append(handle)


_PART = r"(?:`[^`]*`|\w+)"
_LITERAL = r"`[^`]*`|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|--[^\n]*|/\*.*?\*/"


def without_database(sql: str, database: str) -> str:
    """A statement whose relations are ``schema.name``, as ctsql reads them.

    >>> without_database("select 'w.s.t' from w.s.t, `w`.`s`.`u`, w.x", "w")
    "select 'w.s.t' from s.t, `s`.`u`, w.x"
    """
    name = re.escape(database)
    prefix = rf"(?<![\w.`])(?:{name}|`{name}`)\.(?={_PART}\.{_PART})"
    pattern = re.compile(rf"{prefix}|({_LITERAL})", re.DOTALL | re.IGNORECASE)
    return pattern.sub(lambda match: match[1] or "", sql)


class CtsqlConnectionManager(SQLConnectionManager):
    """Opens connections and runs statements. Every statement commits by itself."""

    TYPE = "ctsql"
    pool: ClassVar[Pool] = Pool()

    def add_query(self, sql: str, *args: Any, **options: Any) -> Any:
        """Run a statement, whose names may have the target's database before the schema."""
        database = self.get_thread_connection().credentials.database
        return super().add_query(without_database(sql, database), *args, **options)

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Turn ctsql's errors into dbt's, with their detail and hint."""
        try:
            yield
        except ctsql.Error as problem:
            raise DbtDatabaseError(str(problem)) from problem

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Give a connection its handle; Spark starts with the first statement that needs it."""
        if connection.state == ConnectionState.OPEN:
            return connection
        target = connection.credentials
        assert isinstance(target, CtsqlCredentials)
        try:
            connection.handle = cls.pool.take(target)
        except ctsql.Error as problem:
            connection.state = ConnectionState.FAIL
            raise FailedToConnectError(str(problem)) from problem
        connection.state = ConnectionState.OPEN
        return connection

    @classmethod
    def _close_handle(cls, connection: Connection) -> None:
        target = connection.credentials
        assert isinstance(target, CtsqlCredentials)
        if connection.state == ConnectionState.OPEN and connection.handle is not None:
            cls.pool.give_back(target, connection.handle)

    def cancel(self, connection: Connection) -> None:
        """Cancel the statement that a thread runs."""
        connection.handle.cancel()

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        """The status of a statement, such as ``INSERT 0 3``, and the rows that it changed."""
        result = cursor.result
        return AdapterResponse(
            _message=result.status, code=result.status.split(" ")[0], rows_affected=result.rowcount
        )

    def add_begin_query(self) -> Any:
        """Do nothing: every statement commits by itself."""

    def add_commit_query(self) -> Any:
        """Do nothing: every statement has committed by itself."""
