"""The server: connections, their messages, logins, and the queue of statements.

One event loop reads and writes. One thread runs the statements of all clients in the order of
arrival, one portion of rows at a time. A client that reads slowly or has disconnected does not
occupy the thread.
"""

import asyncio
import contextlib
import hmac
import logging
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ctsql.catalog.errors import CtsqlError, error, misuse
from ctsql.runtime.spark.failures.errors import is_lost
from ctsql_postgres import dialect, messages as pg, values
from ctsql_postgres.access import PASSWORD_VARIABLE, Access, access_for
from ctsql_postgres.catalog import Catalog
from ctsql_postgres.copying import copy_lines
from ctsql_postgres.dialect import Translated
from ctsql_postgres.statements import (
    Outcome,
    Prepared,
    Session,
    Warn,
    protocol_error,
    settings_given,
)
from ctsql_postgres.values import BY_NAME, TEXT

if TYPE_CHECKING:
    from ctsql.api import Connection
    from ctsql.cli.serve import OnLost

T = TypeVar("T")
LOGIN_SECONDS = 30.0
CANCEL_SECONDS = 0.2
MESSAGE_MAX = 64 * 1024 * 1024
QUEUED_MAX = 64
OUT_MAX = 256 * 1024
BACKLOG = 512
STRANGERS_MAX = 64  # connections that have not logged in
CLOSE_SECONDS = 2.0
_REPORTED = (
    "server_version", "server_encoding", "client_encoding", "application_name", "DateStyle",
    "IntervalStyle", "TimeZone", "integer_datetimes", "standard_conforming_strings",
    "is_superuser", "session_authorization", "default_transaction_read_only",
)  # fmt: skip
log = logging.getLogger("ctsql.postgres")


class Turns:
    """Runs the clients' work in the order of arrival, in one thread.

    ``on_lost`` is called when Spark has ended: no statement can run from then on.
    """

    def __init__(self, on_lost: "OnLost") -> None:
        self._on_lost = on_lost
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ctsql-postgres")

    async def take(self, client: "Client", work: Callable[[], T]) -> T:
        """Run a function in the thread; STATEMENT_CANCELLED: cancelled, running or still queued."""

        def run() -> T:
            with client.changing:
                if client.is_cancelled:
                    raise error("STATEMENT_CANCELLED")
                client.is_running = True
            try:
                return work()
            except CtsqlError as problem:
                if is_lost(problem):
                    self._on_lost(problem)
                raise
            finally:
                client.is_running = False

        waiting = asyncio.get_running_loop().run_in_executor(self._pool, run)
        client.waiting = waiting
        try:
            return await waiting
        except asyncio.CancelledError as problem:
            if waiting.cancelled() and client.is_cancelled:
                raise error("STATEMENT_CANCELLED") from problem
            raise

    def close(self) -> None:
        """Wait for the running work."""
        self._pool.shutdown()


@dataclass(slots=True)
class Portal:
    """A statement with its parameters."""

    prepared: Prepared
    given: list[object]
    formats: tuple[int, ...]
    outcome: Outcome | None = None


class Gone(Exception):
    """The client has disconnected or broken the protocol; contains the last error for it."""

    def __init__(self, sqlstate: str = "", message: str = "") -> None:
        super().__init__(message)
        self.sqlstate, self.message = sqlstate, message


class Client:
    """One connected client."""

    def __init__(
        self, server: "Server", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.server = server
        self.reader, self.writer = reader, writer
        self.process, self.secret = 0, secrets.randbits(32)
        self.is_cancelled = self.is_running = False
        self.changing = threading.Lock()  # held while these change
        self.waiting: asyncio.Future[Any] | None = None
        self.session: Session | None = None
        self._incoming: asyncio.Queue[tuple[bytes, bytes] | None] = asyncio.Queue(QUEUED_MAX)
        self._out = bytearray()
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._skips = False  # after an error, up to Sync
        self._source = ""

    # ---- writing

    def send(self, data: bytes) -> None:
        """Add a message to the output buffer."""
        self._out += data

    async def flush(self) -> None:
        """Write the output buffer; waits for a client that reads slowly."""
        if self._out:
            self.writer.write(bytes(self._out))
            self._out.clear()
        await self.writer.drain()

    def send_problem(self, problem: CtsqlError) -> None:
        """Send an error, with its place in the client's text."""
        position = None if problem.span is None else str(problem.span.start + 1)
        self.send(
            pg.fields(
                b"E",
                {
                    "S": "ERROR", "V": "ERROR", "C": problem.sqlstate, "M": problem.message,
                    "D": problem.detail, "H": problem.hint, "P": position,
                    "R": problem.condition,
                },
            )
        )  # fmt: skip

    def send_fatal(self, sqlstate: str, message: str) -> None:
        """Send the last message before the connection ends."""
        self.send(pg.fields(b"E", {"S": "FATAL", "V": "FATAL", "C": sqlstate, "M": message}))

    def send_notice(self, sqlstate: str, message: str, severity: str = "NOTICE") -> None:
        """Send a message that the client may show."""
        self.send(pg.fields(b"N", {"S": severity, "V": severity, "C": sqlstate, "M": message}))

    # ---- life

    async def serve(self) -> None:
        """Handle the connection from its first message to its end."""
        pump: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                if not await self._log_in():
                    return
            pump = asyncio.create_task(self._receive())
            while (received := await self._incoming.get()) is not None:
                await self._handle(*received)
        except Gone as gone:
            if gone.sqlstate:
                self.send_fatal(gone.sqlstate, gone.message)
                await self.flush()
        except (struct.error, ValueError, IndexError) as problem:
            self.send_fatal("08P01", f"the message cannot be read: {problem}")
            await self.flush()
        finally:
            if pump is not None:
                pump.cancel()
            await self._end()

    async def _end(self) -> None:
        self._portals.clear()
        if self.session is not None:
            con = self.session.connection
            self.session.cursors.clear()
            self.is_cancelled = False
            try:
                await self.server.turns.take(self, con.close)
            except CtsqlError as problem:  # Spark is gone
                log.warning("a client's connection was not closed: %s", problem.message)

    async def _receive(self) -> None:
        """Queue messages as they arrive; a closed connection cancels the running statement."""
        try:
            while True:
                kind, size = struct.unpack("!cI", await self.reader.readexactly(5))
                if not 4 <= size <= MESSAGE_MAX:
                    break
                body = await self.reader.readexactly(size - 4)
                if kind == b"X":
                    break
                await self._incoming.put((kind, body))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, ssl.SSLError):
            self.cancel()
        await self._incoming.put(None)

    def cancel(self) -> None:
        """Cancel the running or queued statement."""
        with self.changing:
            self.is_cancelled, is_running = True, self.is_running
        if not is_running:
            if self.waiting is not None:
                self.waiting.cancel()
        elif self.session is not None:
            self.session.connection.cancel()
            # It may not have begun with what can be cancelled.
            asyncio.get_running_loop().call_later(CANCEL_SECONDS, self._cancel_again)

    def _cancel_again(self) -> None:
        if self.is_cancelled and self.is_running:
            self.cancel()

    # ---- logging in

    async def _log_in(self) -> bool:
        while True:
            (size,) = struct.unpack("!I", await self.reader.readexactly(4))
            if not 8 <= size <= 10_000:
                raise Gone
            body = pg.Reader(await self.reader.readexactly(size - 4))
            (code,) = body.numbers("I")
            if code == pg.TLS and self.server.access.tls is not None:
                await self._encrypt()
            elif code in (pg.TLS, pg.GSS):
                self.writer.write(b"N")
            elif code == pg.CANCEL:
                self.server.cancel(*body.numbers("II"))
                return False
            else:
                break
        if code >> 16 != 3:
            raise Gone("0A000", f"protocol {code >> 16}.{code & 0xFFFF} is not supported")
        parts = body.rest().split(b"\0")
        given = {k.decode(): v.decode() for k, v in zip(parts[::2], parts[1::2], strict=False) if k}
        if code & 0xFFFF:
            self.send(pg.message(b"v", struct.pack("!ii", pg.PROTOCOL, 0)))
        access = self.server.access
        if self.server.is_full:
            message = f"there are {access.connections_max} clients already, and no more may connect"
            raise Gone("53300", message)
        if access.needs_tls and self.writer.get_extra_info("ssl_object") is None:
            raise Gone("28000", "this server takes encrypted connections only: sslmode=require")
        if self.server.verifier is not None:
            await self._authenticate(self.server.verifier)
        self.send(pg.AUTHENTICATED)
        await self._open(given)
        return True

    async def _encrypt(self) -> None:
        with contextlib.suppress(TimeoutError):
            # What comes before the answer is not encrypted: somebody else may have put it in.
            async with asyncio.timeout(0.001):
                await self.reader.read(1)
            raise Gone
        self.writer.write(b"S")
        await self.writer.drain()
        assert self.server.access.tls is not None
        await self.writer.start_tls(self.server.access.tls)

    async def _authenticate(self, verifier: pg.Verifier) -> None:
        self.send(pg.message(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0"))
        await self.flush()
        exchange = pg.Scram(verifier)
        try:
            body = pg.Reader(await self._password())
            if body.text() != "SCRAM-SHA-256":
                raise ValueError
            challenge = exchange.first(body.value() or b"")
            self.send(pg.message(b"R", struct.pack("!i", 11) + challenge))
            await self.flush()
            proof = exchange.last(await self._password())
        except (ValueError, KeyError) as problem:
            raise Gone("28P01", "password authentication failed") from problem
        self.send(pg.message(b"R", struct.pack("!i", 12) + proof))

    async def _password(self) -> bytes:
        kind, size = struct.unpack("!cI", await self.reader.readexactly(5))
        if kind != b"p" or size > 10_000:
            raise ValueError
        return await self.reader.readexactly(size - 4)

    async def _open(self, given: dict[str, str]) -> None:
        user = given.get("user", "")
        database = given.get("database", user)
        server = self.server
        connection = server.connection.duplicate()

        async def turn(work: Callable[[], Any]) -> Any:
            return await server.turns.take(self, work)

        self.process = server.add(self)
        self.session = Session(
            connection, server.catalog, turn, user, database, self.process, self._prepared
        )
        self.session.settings["session_authorization"] = user
        try:
            for name, value in settings_given(given):
                await self.session.assign(name, value)
        except CtsqlError as problem:
            raise Gone(problem.sqlstate, problem.message) from problem
        for name in _REPORTED:
            self.send(pg.parameter_status(name, self.session.setting(name.lower()) or ""))
        self.send(pg.key_data(self.process, self.secret))
        self.send(pg.ready("I"))
        await self.flush()

    # ---- messages

    async def _handle(self, kind: bytes, body: bytes) -> None:
        assert self.session is not None
        self.is_cancelled = False
        seconds = self.session.timeout_seconds
        if not seconds:
            await self._answer(kind, body)
            return
        timer = asyncio.get_running_loop().call_later(seconds, self.cancel)
        try:
            await self._answer(kind, body)
        finally:
            timer.cancel()

    async def _answer(self, kind: bytes, body: bytes) -> None:
        assert self.session is not None
        if kind == b"S":
            self._skips = False
            if self.session.status == "I":
                self._portals.clear()  # they end with the transaction
            self.send(pg.ready(self.session.status))
            await self.flush()
        elif kind == b"Q":
            await self._query(pg.Reader(body).text())
        elif kind == b"H":
            await self.flush()
        elif kind in _EXTENDED:
            if not self._skips:
                await _EXTENDED[kind](self, pg.Reader(body))
        elif kind not in (b"d", b"c", b"f"):  # of a COPY that has failed
            raise Gone("08P01", f"message {kind!r} is unknown")

    async def _query(self, text: str) -> None:
        assert self.session is not None
        self._portals.pop("", None)
        together = False
        try:
            statements = dialect.split(text)
            if not statements:
                self.send(pg.EMPTY)
            together = self.session.are_one_change(statements)
            if together:
                await self.session.open()
            for statement in statements:
                await self._run(statement)
            if together:
                await self.session.commit()
        except CtsqlError as problem:
            if together:
                await self.session.roll_back()
            self.session.fail()
            self.send_problem(problem)
        self.send(pg.ready(self.session.status))
        await self.flush()

    async def _run(self, statement: Translated) -> None:
        assert self.session is not None
        try:
            outcome = await self.session.begin(statement, ())
        except Warn as warning:
            self.send_notice(warning.sqlstate, str(warning), "WARNING")
            self.send(pg.complete(warning.tag))
            return
        self._notices(outcome)
        if outcome.columns is not None and outcome.copy is None:
            self.send(pg.row_description(outcome.columns, [0] * len(outcome.columns)))
        await self._rows(outcome, (), 0)

    def _notices(self, outcome: Outcome) -> None:
        for text in outcome.notices:
            self.send_notice("00000", text)

    async def _rows(self, outcome: Outcome, formats: Sequence[int], limit: int) -> None:
        """Send rows, at most ``limit`` if that is not 0, and the tag."""
        if outcome.columns is None:
            self.send(pg.complete(outcome.tag))
            return
        if outcome.copy is not None:
            await copy_lines(outcome, self.send, self.flush)
            return
        forms = _each(formats, len(outcome.columns))
        encoders = [
            column.encoder(binary=form == 1)
            for (_, column), form in zip(outcome.columns, forms, strict=True)
        ]
        width, sent = len(encoders), 0
        while not outcome.is_over and (limit == 0 or sent < limit):
            for row in await outcome.next(limit - sent if limit else 0):
                pairs = zip(encoders, row, strict=True)
                self.send(pg.data_row((None if v is None else f(v) for f, v in pairs), width))
                sent += 1
            if len(self._out) > OUT_MAX:
                await self.flush()
        if not outcome.is_over:
            self.send(pg.SUSPENDED)
            return
        self.send(pg.complete(f"{outcome.tag} {sent}" if outcome.tag != "SHOW" else "SHOW"))

    async def _guarded(self, work: Callable[[], Any]) -> None:
        """Handle a message of the extended protocol; an error skips the next ones up to Sync."""
        assert self.session is not None
        try:
            await work()
        except CtsqlError as problem:
            self._skips = True
            self.session.fail()
            self.send_problem(problem)

    async def _parse(self, body: pg.Reader) -> None:
        name, text = body.text(), body.text()
        oids = list(body.list_of("I"))

        async def work() -> None:
            statements = dialect.split(text)
            if len(statements) > 1:
                message = "a prepared statement cannot be several statements"
                raise error("SYNTAX_ERROR", message=message)
            if name and name in self._prepared:
                raise protocol_error("42P05", f'prepared statement "{name}" already exists')
            statement = statements[0] if statements else None
            self._prepared[name] = Prepared(statement, _types(statement, oids))
            self.send(pg.PARSED)

        await self._guarded(work)

    async def _bind(self, body: pg.Reader) -> None:
        portal, name = body.text(), body.text()
        formats = body.list_of("h")
        (count,) = body.numbers("h")
        given = [body.value() for _ in range(count)]
        results = body.list_of("h")

        async def work() -> None:
            prepared = self._find(name)
            if len(given) != len(prepared.oids):
                wanted = len(prepared.oids)
                raise error("PARAMETER_MISMATCH", wanted=wanted, given=len(given))
            forms = _each(formats, count)
            triples = zip(given, prepared.oids, forms, strict=True)
            parameters = [
                _parameter(data, oid, form == 1, number)
                for number, (data, oid, form) in enumerate(triples, start=1)
            ]
            self._portals[portal] = Portal(prepared, parameters, results)
            self.send(pg.BOUND)

        await self._guarded(work)

    def _find(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise protocol_error("26000", f'prepared statement "{name}" does not exist')
        return self._prepared[name]

    def _find_portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise protocol_error("34000", f'portal "{name}" does not exist')
        return self._portals[name]

    async def _describe(self, body: pg.Reader) -> None:
        kind, name = body.kind(), body.text()
        session = self.session
        assert session is not None

        async def work() -> None:
            if kind == b"S":
                prepared = self._find(name)
                statement = prepared.statement
                self.send(pg.parameter_description(prepared.oids))
                outcome = None
                if statement is not None and session.has_rows(statement):
                    outcome = await session.begin(statement, [*map(values.sample, prepared.oids)])
                formats: Sequence[int] = ()
            else:
                outcome, formats = session.cursors.get(name), ()
                if outcome is None:
                    portal = self._find_portal(name)
                    statement, formats = portal.prepared.statement, portal.formats
                    if statement is not None and session.has_rows(statement):
                        outcome = await self._begun(portal)
            if outcome is None or outcome.columns is None:
                self.send(pg.NO_DATA)
                return
            self.send(pg.row_description(outcome.columns, _each(formats, len(outcome.columns))))

        await self._guarded(work)

    async def _begun(self, portal: Portal) -> Outcome:
        assert self.session is not None
        if portal.outcome is None:
            assert portal.prepared.statement is not None
            portal.outcome = await self.session.begin(portal.prepared.statement, portal.given)
            self._notices(portal.outcome)
        return portal.outcome

    async def _execute(self, body: pg.Reader) -> None:
        name = body.text()
        (limit,) = body.numbers("i")

        async def work() -> None:
            portal = self._find_portal(name)
            if portal.prepared.statement is None:
                self.send(pg.EMPTY)
                return
            try:
                await self._rows(await self._begun(portal), portal.formats, max(limit, 0))
            except Warn as warning:
                self.send_notice(warning.sqlstate, str(warning), "WARNING")
                self.send(pg.complete(warning.tag))

        await self._guarded(work)

    async def _close(self, body: pg.Reader) -> None:
        kind, name = body.kind(), body.text()
        (self._prepared if kind == b"S" else self._portals).pop(name, None)
        self.send(pg.CLOSED)


_EXTENDED: dict[bytes, Callable[[Client, pg.Reader], Any]] = {
    b"P": Client._parse, b"B": Client._bind, b"D": Client._describe, b"E": Client._execute,
    b"C": Client._close,
}  # fmt: skip


def _each(formats: Sequence[int], count: int) -> Sequence[int]:
    """A format for each value: text if none is given; one is for all."""
    if len(formats) == count:
        return formats
    return [formats[0] if len(formats) == 1 else 0] * count


def _types(statement: Translated | None, oids: list[int]) -> list[int]:
    """The types of all parameters; text where the client gives none."""
    if statement is None:
        return []
    count = max((*statement.parameters, len(oids)), default=0)
    given = oids + [0] * (count - len(oids))
    hints = {number: BY_NAME[name].oid for number, name in statement.hints.items()}
    return [oid or hints.get(number, TEXT.oid) for number, oid in enumerate(given, start=1)]


def _parameter(data: bytes | None, oid: int, binary: bool, number: int) -> object:
    try:
        return values.parameter(data, oid, binary=binary)
    except (ValueError, ArithmeticError, struct.error, KeyError) as problem:
        raise protocol_error(
            "22P02", f"parameter ${number} cannot be read as its type"
        ) from problem


class Server:
    """All clients of one warehouse."""

    def __init__(self, connection: "Connection", access: Access, on_lost: "OnLost") -> None:
        self.connection, self.access = connection, access
        self.turns, self.catalog = Turns(on_lost), Catalog()
        self.verifier = None if access.password is None else pg.Verifier.of(access.password)
        self._clients: dict[int, Client] = {}
        self._connected: set[asyncio.Task[None]] = set()
        self._last = 0

    def add(self, client: Client) -> int:
        """Add a client; returns its number for cancel requests."""
        self._last = self._last % 0x7FFFFFFF + 1
        self._clients[self._last] = client
        return self._last

    def cancel(self, process: int, secret: int) -> None:
        """Cancel a client's statement, if the secret is right."""
        client = self._clients.get(process)
        if client is not None and hmac.compare_digest(
            struct.pack("!I", client.secret), struct.pack("!I", secret)
        ):
            client.cancel()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        assert task is not None
        client = Client(self, reader, writer)
        try:
            if len(self._connected) >= self.access.connections_max + STRANGERS_MAX:
                return
            self._connected.add(task)
            connected = writer.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await client.serve()
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError, ssl.SSLError):
            pass  # it is gone
        finally:
            self._clients.pop(client.process, None)
            self._connected.discard(task)
            writer.close()

    @property
    def is_full(self) -> bool:
        """Whether no more clients may connect."""
        return len(self._clients) >= self.access.connections_max

    async def listen(self) -> asyncio.Server:
        """Begin to accept clients; raises INVALID_USAGE."""
        host, port = self.access.host, self.access.port
        try:
            return await asyncio.start_server(self.accept, host, port, backlog=BACKLOG)
        except OSError as problem:
            message = f"nothing can be served at {host}:{port}"
            raise misuse(message, f"{problem.strerror or problem}.") from problem

    async def stop(self, listening: asyncio.Server) -> None:
        """End all clients; their statements are cancelled."""
        listening.close()
        for client in list(self._clients.values()):
            client.cancel()
            client.send_fatal("57P01", "the server is stopped")
            client.writer.write(bytes(client._out))
            client.writer.close()
        if self._connected:
            await asyncio.wait(self._connected, timeout=CLOSE_SECONDS)
        for client in list(self._clients.values()):
            client.writer.transport.abort()  # it does not read
        if self._connected:
            await asyncio.wait(self._connected)
        self.turns.close()


@dataclass(frozen=True, slots=True)
class Running:
    """A running server; ``notes`` are for the person who started it."""

    port: int
    notes: list[str]


@contextlib.contextmanager
def serving(
    connection: "Connection",
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    on_lost: "OnLost" = lambda _: None,
    **settings: Any,
) -> Iterator[Running]:
    """Serve a connection's warehouse inside the block; starts Spark first.

    Args:
        port: 0 for any free one. on_lost: called with the error when Spark is gone, from another
            thread. settings: those of :func:`ctsql_postgres.access.access_for`.

    Raises:
        INVALID_USAGE: nothing can be served there. Other conditions: the warehouse does not open.
    """
    access = access_for(host, port, **settings)
    connection.start()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ctsql-postgres-io", daemon=True)
    thread.start()
    server = Server(connection, access, on_lost)

    def wait_for(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        listening = wait_for(server.listen())
        try:
            found = listening.sockets[0].getsockname()[1]
            yield Running(found, _notes(connection, access, found))
        finally:
            wait_for(server.stop(listening))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _notes(connection: "Connection", access: Access, port: int) -> list[str]:
    how = "read-only" if connection.read_only else "for reading and writing"
    lines = [f"Serving PostgreSQL's clients at {access.host}:{port}, {how}."]
    if access.is_new:
        lines.append(f"The password is {access.password}; {PASSWORD_VARIABLE} sets another one.")
    return lines
