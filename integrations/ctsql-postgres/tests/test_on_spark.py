"""A warehouse on Spark: values, errors at their place, one T for a transaction, cancel, psql."""

import datetime as dt
import signal
import subprocess
import threading
import time
from decimal import Decimal

import psycopg
import pytest
from ctsql_postgres import serving

import ctsql

SHOP = """
    CREATE TABLE orders (k INT NOT NULL COMMENT 'the key', name STRING, price DECIMAL(8, 2));
    INSERT INTO orders VALUES (1, 'pen', 1.20), (2, 'ink', 8.00);
    CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(price) AS price FROM orders;
    CREATE CONTINUAL TASK audit (k INT) ON INPUT orders AS (INSERT INTO audit SELECT k FROM orders);
    COMMENT ON TABLE orders IS 'what was bought'
"""
VALUES = {
    "true": True,
    "1Y": 1,
    "-2S": -2,
    "9007199254740993": 9007199254740993,
    "CAST(0.1 AS FLOAT)": 0.1,
    "0.1D": 0.1,
    "CAST('-12.3400' AS DECIMAL(38, 10))": Decimal("-12.3400000000"),
    "'it''s \\ é'": "it's \\ é",
    "X'00FF'": b"\0\xff",
    "NULL": None,
    "DATE '2026-02-28'": dt.date(2026, 2, 28),
    "TIMESTAMP '2026-02-28 01:02:03.000004+01:00'": dt.datetime(
        2026, 2, 28, 0, 2, 3, 4, tzinfo=dt.UTC
    ),
    "TIMESTAMP_NTZ '2026-02-28 01:02:03'": dt.datetime(2026, 2, 28, 1, 2, 3),
    "INTERVAL '1 02:03:04' DAY TO SECOND": dt.timedelta(days=1, hours=2, minutes=3, seconds=4),
    "array(1, NULL)": [1, None],
    "array('a', 'b c')": ["a", "b c"],
    "map('a', 1)": {"a": 1},
    "named_struct('a', 1, 'b', array(1.5))": {"a": 1, "b": [1.5]},
    "array(array(1), array(2, 3))": [[1], [2, 3]],
    '"k"': 1,
    "'7'::int8": 7,
    "CAST(k AS double precision)": 1.0,
    "'1.25'::numeric": Decimal("1.250000000000000000"),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A connection, and the address of its server."""
    con = ctsql.connect(str(tmp_path_factory.mktemp("shop") / "warehouse"), master="local[2]")
    con.execute(SHOP)
    with serving(con) as running:
        yield con, f"host=127.0.0.1 port={running.port} user=me dbname=shop"
    con.close()


def test_a_warehouse_on_spark(shop) -> None:
    """One client after the other: few starts of Spark."""
    con, address = shop
    with psycopg.connect(address, autocommit=True) as client:
        _values(client)
        _errors(client)
        _cancels(client)
        _relations(client)
        _psql(address)
        _slow_readers(client, address)
        _writes(con, client, address)


def _values(client) -> None:
    for binary in (False, True):
        row = client.execute(
            f"SELECT {', '.join(VALUES)} FROM orders WHERE k = %s", [1], binary=binary
        ).fetchone()
        wrong = [
            (sql, got, wanted)
            for (sql, wanted), got in zip(VALUES.items(), row, strict=True)
            if got != wanted and not (isinstance(got, float) and abs(got - wanted) < 1e-6)
        ]
        assert wrong == []
    assert client.execute("SELECT * FROM total").fetchall() == [(2, Decimal("9.20"))]
    assert sorted(client.execute("SELECT k FROM audit").fetchall()) == [(1,), (2,)]
    with client.cursor().copy("COPY (SELECT k, name FROM orders ORDER BY k) TO STDOUT") as copy:
        assert list(copy.rows()) == [("1", "pen"), ("2", "ink")]
    rows = client.execute("SELECT id FROM range(%s)", [3500]).fetchall()
    assert sorted(rows) == [(n,) for n in range(3500)]


def _errors(client) -> None:
    for query, state, position in (
        ("SELECT nope FROM orders", "42703", "8"),
        ("SELECT 'it''s', \"k\" FROM \"no such\"", "42P01", "26"),
        ("SELEKT 1", "42601", "1"),
        ("SELECT 1 / (k - 1) FROM orders", "22012", None),
    ):
        with pytest.raises(psycopg.Error) as caught:
            client.execute(query).fetchall()
        diag = caught.value.diag
        assert (diag.sqlstate, diag.statement_position) == (state, position) or position is None
    assert client.execute("SELECT 1").fetchone() == (1,)


def _cancels(client) -> None:
    threading.Timer(1.0, client.cancel_safe).start()
    begin = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled):
        client.execute("SELECT count(*) FROM range(1000000000000)")
    assert time.monotonic() - begin < 30


def _relations(client) -> None:
    found = client.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = %s ORDER BY table_name, ordinal_position",
        ["default"],
    ).fetchall()
    assert found == [
        ("audit", "k", "integer"), ("orders", "k", "integer"), ("orders", "name", "text"),
        ("orders", "price", "numeric"), ("total", "n", "bigint"), ("total", "price", "numeric"),
    ]  # fmt: skip
    assert client.execute("SELECT obj_description('orders'::regclass)").fetchone() == (
        "what was bought",
    )


def _psql(address) -> None:
    command = ["psql", "-X", "-A", address]
    lists = [part for given in (r"\dt", r"\d+ orders", r"\d+ total") for part in ("-c", given)]
    done = subprocess.run([*command, *lists], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    for line in (
        "default|orders|table|me",
        "k|integer||not null||plain|||the key",
        "price|numeric(8,2)|||",
        "n|bigint||not null|",
        "View definition:",
        "count(*)",
    ):
        assert line in done.stdout, line
    queries = ["-c", "SELECT 'begun'", "-c", "SELECT count(*) FROM range(1000000000000)"]
    with subprocess.Popen(
        [*command, "-t", *queries], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as psql:
        assert psql.stdout.readline() == "begun\n"
        time.sleep(1.0)
        psql.send_signal(signal.SIGINT)  # Ctrl-C
        _, err = psql.communicate(timeout=60)
    assert "the statement was cancelled" in err


def _slow_readers(client, address) -> None:
    """Five clients read 200 MB each, after a pause; others are answered meanwhile."""
    text = "lpad(CAST(id AS STRING), 1000, 'x')"
    count, read = 200_000, []

    def read_slowly() -> None:
        with psycopg.connect(address) as reader, reader.cursor("slow") as cursor:
            cursor.itersize = 10_000
            cursor.execute(f"SELECT id, {text} FROM range(0, {count}, 1, 1)")
            cursor.fetchone()
            time.sleep(5.0)
            read.append(1 + sum(1 for _ in cursor))

    readers = [threading.Thread(target=read_slowly) for _ in range(5)]
    for reader in readers:
        reader.start()
    while any(reader.is_alive() for reader in readers):
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (2,)
        time.sleep(0.5)
    assert read == [count] * 5


def _writes(con, client, address) -> None:
    with psycopg.connect(address) as other:  # a transaction
        other.execute("INSERT INTO orders VALUES (%s, %s, %s)", (3, "it's", Decimal("0.50")))
        other.execute("UPDATE orders SET price = price + 1 WHERE k = %s", [1])
        assert client.execute("SELECT n FROM total").fetchone() == (2,)
        before = con.now()
        other.commit()
    assert client.execute("SELECT n, price FROM total").fetchone() == (3, Decimal("10.70"))
    commits = [c for c in con.commits("orders") if c.t is not None and c.t > before]
    assert len({c.t for c in commits}) == 1
    with con.duplicate() as read_only:
        read_only.read_only = True
        with serving(read_only) as running:
            port = running.port
            with psycopg.connect(f"host=127.0.0.1 port={port} user=me") as reader:
                assert reader.execute("SHOW transaction_read_only").fetchone() == ("on",)
                with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                    reader.execute("INSERT INTO orders VALUES (9, 'x', 1)")
