"""Who may connect, and what clients do to each other: nothing."""

import asyncio
import contextlib
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time

import psycopg
import pytest
from ctsql_postgres import messages, serving
from ctsql_postgres.access import access_for
from fake_connection import FakeConnection, wait_for

from ctsql.catalog.errors import CtsqlError


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[str, str]:
    """A certificate of this machine, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    made, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-out", made, "-keyout", key],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


def test_other_machines_need_tls_and_a_password(certificate, monkeypatch) -> None:
    """An address that they reach is refused without a certificate; the password is made."""
    monkeypatch.delenv("CTSQL_POSTGRES_PASSWORD", raising=False)
    with pytest.raises(CtsqlError, match="need TLS"):
        access_for("0.0.0.0", 0)
    with pytest.raises(CtsqlError, match="no certificate"):
        access_for("0.0.0.0", 0, certificate="/nothing", key=None)
    access = access_for("0.0.0.0", 0, certificate=certificate[0], key=certificate[1])
    assert access.needs_tls
    assert access.is_new
    assert len(access.password or "") >= 16
    assert access_for("127.0.0.1", 0).password is None


def test_tls_and_scram(certificate, monkeypatch) -> None:
    """The right password over TLS connects; a wrong one, none, or no TLS do not."""
    monkeypatch.setenv("CTSQL_POSTGRES_PASSWORD", "pass wörd")
    with serving(
        FakeConnection(), "0.0.0.0", certificate=certificate[0], key=certificate[1]
    ) as running:
        given = f"host=127.0.0.1 port={running.port} user=me connect_timeout=10"

        def error(options: str) -> str:
            with pytest.raises(psycopg.OperationalError) as caught:
                psycopg.connect(f"{given} {options}")
            return str(caught.value)

        right = "password='pass wörd'"
        with psycopg.connect(
            f"{given} {right} sslmode=verify-ca sslrootcert={certificate[0]}", autocommit=True
        ) as con:
            assert con.execute("SELECT 1").fetchone() == (1,)
            assert con.pgconn.ssl_in_use
        assert "password authentication failed" in error("password=wrong sslmode=require")
        assert "password" in error("sslmode=require")
        assert "sslmode=require" in error(f"{right} sslmode=disable")


def test_what_comes_before_tls_is_not_taken(certificate, monkeypatch) -> None:
    """Bytes behind the request for TLS may be somebody else's: the connection ends."""
    with (
        serving(FakeConnection(), certificate=certificate[0], key=certificate[1]) as running,
        socket.create_connection(("127.0.0.1", running.port)) as raw,
    ):
        raw.sendall(struct.pack("!II", 8, messages.TLS) + b"SELECT")
        raw.settimeout(10)
        assert raw.recv(10) == b""


def test_scram_of_rfc_7677(monkeypatch) -> None:
    """The example of the RFC."""
    import base64
    import hashlib

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    client_key = messages._hmac(salted, b"Client Key")
    verifier = messages.Verifier(
        salt, hashlib.sha256(client_key).digest(), messages._hmac(salted, b"Server Key")
    )
    monkeypatch.setattr(
        messages.secrets, "token_urlsafe", lambda _: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    exchange = messages.Scram(verifier)
    assert exchange.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").endswith(
        b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    proof = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.last(proof) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_so_many_clients_and_no_more() -> None:
    """One more gets an error that says so; when one has gone, another may come."""
    with serving(FakeConnection(), connections_max=2) as running:
        given = f"host=127.0.0.1 port={running.port} user=me"
        one, other = psycopg.connect(given), psycopg.connect(given)
        with pytest.raises(psycopg.OperationalError, match="2 clients already"):
            psycopg.connect(given)
        one.close()

        def connects() -> bool:
            try:
                psycopg.connect(given).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_for(connects)
        other.close()


def test_a_killed_client_ends_what_it_runs(served) -> None:
    """Its statement is cancelled, its transaction rolled back, and others go on."""
    with served.connect() as con:
        con.execute("CREATE TABLE t (k INT)")
    process = subprocess.Popen(
        ["psql", "-X", "-q", served.conninfo, "-c", "BEGIN", "-c", "INSERT INTO t VALUES (1)",
         "-c", "SLOW"],
    )  # fmt: skip
    wait_for(lambda: any("SLOW" in one.ran for one in served.connection.duplicates))
    process.kill()
    process.wait()
    begin = time.monotonic()
    with served.connect() as con:
        assert con.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert time.monotonic() - begin < 10  # SLOW takes 20
    wait_for(lambda: all(one.is_closed for one in served.connection.duplicates))


def test_a_slow_reader_holds_nobody_up(served) -> None:
    """A client that reads no rows has no turn; its rows are not kept in memory."""
    with socket.create_connection(("127.0.0.1", served.port)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        start = b"user\0me\0database\0shop\0\0"
        raw.sendall(struct.pack("!II", len(start) + 8, messages.PROTOCOL) + start)
        query = b"SELECT repeat('x', 1000) FROM range(300000)\0"
        raw.sendall(b"Q" + struct.pack("!I", len(query) + 4) + query)
        time.sleep(1)
        begin = time.monotonic()
        with served.connect() as con:
            for _ in range(20):
                assert con.execute("SELECT 1").fetchone() == (1,)
        assert time.monotonic() - begin < 10


def test_many_clients(served) -> None:
    """Forty clients at a time get their own rows, and leave nothing."""

    async def run(number: int) -> None:
        con = await psycopg.AsyncConnection.connect(served.conninfo, autocommit=True)
        async with con:
            for n in range(10):
                cursor = await con.execute("SELECT %s + range FROM range(50)", [number * 1000 + n])
                rows = await cursor.fetchall()
                assert [row[0] for row in rows] == [number * 1000 + n + i for i in range(50)]

    async def run_all() -> None:
        await asyncio.gather(*map(run, range(40)))

    with served.connect() as con:
        con.execute("SELECT 1")
    before = threading.active_count()
    asyncio.run(run_all())
    wait_for(lambda: all(one.is_closed for one in served.connection.duplicates))
    assert threading.active_count() <= before


def test_bytes_that_are_no_message(served) -> None:
    """They end their own connection and no other."""
    for data in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(64), struct.pack("!II", 8, 0), b"\0" * 100):
        with socket.create_connection(("127.0.0.1", served.port)) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            raw.settimeout(10)
            while raw.recv(1000):
                pass
    start = b"user\0me\0\0"
    for kind, body in ((b"Q", b"no end"), (b"B", b"\0"), (b"?", b""), (b"P", b"a\0b"), (b"D", b"")):
        with socket.create_connection(("127.0.0.1", served.port)) as raw:
            raw.sendall(struct.pack("!II", len(start) + 8, messages.PROTOCOL) + start)
            raw.sendall(kind + struct.pack("!I", len(body) + 4) + body)
            raw.settimeout(10)
            while raw.recv(1000):
                pass
    with served.connect() as con:
        assert con.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_timeout(served) -> None:
    """The statement is cancelled after so long."""
    with served.connect() as con:
        con.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            con.execute("SLOW")
        con.execute("RESET statement_timeout")


def test_settings(served) -> None:
    """Those of PostgreSQL are set and shown; those with one value, and others, are refused."""
    with served.connect() as con:
        con.execute("SET application_name = 'shop'")
        assert con.execute("SHOW application_name").fetchone() == ("shop",)
        assert con.execute("SELECT current_setting('application_name')").fetchone() == ("shop",)
        con.execute("SET TIME ZONE 'UTC'; SET client_encoding TO 'UTF8'; SET search_path = public")
        for refused in ("SET TIME ZONE 'Europe/Berlin'", "SET DateStyle = 'German'"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                con.execute(refused)
        for unknown in ("SET spark.sql.shuffle.partitions = 2", "SET read_only = false"):
            with pytest.raises(psycopg.errors.UndefinedObject):
                con.execute(unknown)


def test_settings_of_a_connection(served) -> None:
    """Parameters and options are set at the login; an unknown one ends it."""
    options = "-c statement_timeout=300ms --application-name=x"
    with served.connect(options="-c statement_timeout=300ms", application_name="shop") as con:
        assert con.execute("SHOW application_name").fetchone() == ("shop",)
        with pytest.raises(psycopg.errors.QueryCanceled):
            con.execute("SLOW")
    with served.connect(options="-c search_path=sales,public"):
        pass
    assert "USE sales" in served.connection.duplicates[-1].ran
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        served.connect(options=f"{options} -c nothing=1")


def test_a_client_reads_data_only(served) -> None:
    """Files of the server, and its Java, are refused."""
    with served.connect() as con:
        for query in (
            "SELECT * FROM 'x.csv'", "SELECT * FROM read_csv('x.csv')", "SELECT * FROM csv.`x`",
            'SELECT * FROM "csv"."x"', "SELECT reflect('java.lang.System', 'exit', 1)",
            "COPY t TO 'x.csv'", "COPY t FROM 'x.csv'", "COPY t FROM STDIN",
        ):  # fmt: skip
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                con.execute(query)


COMMAND = """
import sys
from ctsql.cli.main import main
from fake_connection import FakeConnection
main(sys.argv[1:], obj=lambda *_, read_only, **__: FakeConnection(read_only=read_only))
"""


@pytest.mark.parametrize("mode", ["--read-write", "-q"])
def test_the_command(mode) -> None:
    """``ctsql serve --postgres`` serves until it is stopped, read-only unless asked."""
    command = [sys.executable, "-c", COMMAND, "serve", "--postgres", "0", mode]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    port = re.search(r"127\.0\.0\.1:(\d+), (read-only|for reading and writing)", line)
    assert port is not None, line
    assert (port[2] == "read-only") == (mode == "-q")
    with psycopg.connect(f"host=127.0.0.1 port={port[1]} user=me", autocommit=True) as con:
        assert con.execute("SELECT 1").fetchone() == (1,)
        assert con.execute("SHOW transaction_read_only").fetchone() == (
            "on" if mode == "-q" else "off",
        )
    process.terminate()
    assert process.wait(30) == 0
    process.stderr.close()


def test_a_cancelled_client_that_waits_does_not_run(served) -> None:
    """Its error comes at once, though another client's statement still runs."""
    with served.connect() as busy, served.connect() as waiting:
        slow = threading.Thread(target=lambda: _ignored(busy))
        slow.start()
        wait_for(lambda: any("SLOW" in one.ran for one in served.connection.duplicates))
        threading.Timer(0.3, waiting.cancel_safe).start()
        begin = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            waiting.execute("SELECT 1")
        assert time.monotonic() - begin < 5
        busy.cancel_safe()
        slow.join()
        assert waiting.execute("SELECT 2").fetchone() == (2,)


def _ignored(con: psycopg.Connection) -> None:
    with contextlib.suppress(psycopg.Error):
        con.execute("SLOW")


def test_the_end_of_the_server_reaches_clients() -> None:
    """A client that waits reads that the server is stopped."""
    with serving(FakeConnection()) as running:
        con = psycopg.connect(f"host=127.0.0.1 port={running.port} user=me", autocommit=True)
        assert con.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError):
        con.execute("SELECT 1")


def test_the_owner_is_told_when_spark_is_gone(caplog) -> None:
    """A client gets the error, and leaves without another one."""
    problems: list[CtsqlError] = []
    with serving(FakeConnection(), on_lost=problems.append) as running:
        given = f"host=127.0.0.1 port={running.port} user=me"
        with (
            pytest.raises(psycopg.Error, match="connection to Spark was lost"),
            psycopg.connect(given, autocommit=True) as con,
        ):
            con.execute("LOST")
    assert {p.condition for p in problems} == {"SPARK_ERROR"}
    assert [r.name for r in caplog.records] == ["ctsql.postgres"]
