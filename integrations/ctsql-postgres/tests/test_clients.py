"""What psql, pgjdbc, SQLAlchemy, pandas and asyncpg do with a server."""

import os
import shutil
import signal
import subprocess
import time
import warnings
from pathlib import Path

import pytest
import sqlalchemy as sa

HERE = Path(__file__).parent
JAR = os.environ.get("PGJDBC", "")
SHOP = """
    CREATE TABLE orders
        (k INT NOT NULL, name VARCHAR, price DECIMAL(8, 2), "at" TIMESTAMPTZ, tags VARCHAR[]);
    CREATE TABLE v (k INT); CREATE TABLE mv (n BIGINT); CREATE SCHEMA s;
    CREATE TABLE s."Odd Name" ("a b" DOUBLE);
    CREATE TABLE numbers AS SELECT range AS n FROM range(1000);
    INSERT INTO orders VALUES (1, 'pen', 1.20, '2026-01-01 00:00:00+00', ['a', 'b c'])
"""


@pytest.fixture
def shop(served):
    """A server with relations of each kind."""
    with served.connect() as con:
        con.execute(SHOP)
    return served


def psql(served, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run psql with commands."""
    assert shutil.which("psql"), "psql is missing. Type: apt-get install postgresql-client"
    given = [part for command in commands for part in ("-c", command)]
    return subprocess.run(
        ["psql", "-X", served.conninfo, *given], capture_output=True, text=True, timeout=60
    )


def test_psql_lists(shop) -> None:
    r"""\d, \dt, \dv, \dm, \dn and \l have the relations, their kinds and comments."""
    done = psql(shop, r"\d", r"\dt+", r"\dv", r"\dm", r"\dn", r"\l", r"\dt s.*", r"\du", r"\df")
    assert done.stderr == ""
    out = " ".join(done.stdout.split())
    for line in (
        "default | mv | materialized view | me",
        "default | orders | table | me | permanent | heap | | what was bought",
        "default | v | view | me",
        "default | me s | me",
        "shop | me | UTF8",
        "s | Odd Name | table | me",
    ):
        assert line in out, line


def test_psql_describes(shop) -> None:
    r"""\d and \d+ have columns with types, NOT NULL, comments and definitions."""
    done = psql(shop, r"\d orders", r"\d+ orders", r"\d+ v", r'\d s."Odd Name"', r"\sv v")
    assert done.stderr == ""
    out = " ".join(done.stdout.split())
    for line in (
        "k | integer | | not null |",
        "name | text | | |",
        "price | numeric(8,2) | | |",
        "at | timestamp with time zone | | |",
        "tags | text[] | | |",
        "k | integer | | not null | | plain | | | the key",
        "View definition: CREATE VIEW v",
        "a b | double precision | | |",
    ):
        assert line in out, line


def test_psql_runs_queries_and_shows_errors(shop) -> None:
    """A query, COPY, a variable, an error with its line and caret."""
    done = psql(
        shop, 'SELECT k, name AS "the name" FROM orders', r"\copy orders to stdout csv header",
        "BAD  nothing", "SELECT count(*) FROM orders",
    )  # fmt: skip
    assert "1 | pen" in done.stdout
    assert 'k,name,price,at,tags\n1,pen,1.20,2026-01-01 00:00:00+00,"{a,""b c""}"' in done.stdout
    assert "LINE 1: BAD  nothing\n             ^\nHINT:  Mend it." in done.stderr


def test_ctrl_c_of_psql_cancels(shop) -> None:
    """The statement ends with its error, and psql goes on."""
    process = subprocess.Popen(
        ["psql", "-X", shop.conninfo, "-c", "SLOW", "-c", "SELECT 'still here'"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any("SLOW" in one.ran for one in shop.connection.duplicates):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "the statement was cancelled" in err
    with shop.connect() as con:
        assert con.execute("SELECT 1").fetchone() == (1,)


def test_sqlalchemy_reflects(shop) -> None:
    """Tables, views, columns, types, comments; a query by a reflected table."""
    engine = sa.create_engine(f"postgresql+psycopg://me@127.0.0.1:{shop.port}/shop")
    found = sa.inspect(engine)
    assert found.default_schema_name == "default"
    assert sorted(found.get_table_names()) == ["numbers", "orders"]
    assert found.get_view_names() == ["v"]
    assert found.get_materialized_view_names() == ["mv"]
    assert found.get_table_names("s") == ["Odd Name"]
    assert found.get_view_definition("v") == "CREATE VIEW v"
    assert not found.has_table("nope")
    orders = sa.Table("orders", sa.MetaData(), autoload_with=engine)
    assert orders.comment == "what was bought"
    columns = [(c.name, str(c.type), c.nullable, c.comment) for c in orders.columns]
    assert columns == [
        ("k", "INTEGER", False, "the key"),
        ("name", "TEXT", True, None),
        ("price", "NUMERIC(8, 2)", True, None),
        ("at", "TIMESTAMP", True, None),
        ("tags", "ARRAY", True, None),
    ]
    for other in ("get_indexes", "get_foreign_keys", "get_check_constraints"):
        assert getattr(found, other)("orders") == []
    with engine.begin() as con:
        query = sa.select(orders.c.name).where(orders.c.k.in_([1, 2]), orders.c.name == "pen")
        assert con.execute(query).all() == [("pen",)]
    engine.dispose()


def test_pandas_reads(shop) -> None:
    """``read_sql`` with parameters, and in portions."""
    import pandas as pd

    engine = sa.create_engine(f"postgresql+psycopg://me@127.0.0.1:{shop.port}/shop")
    with engine.connect() as con:
        frame = pd.read_sql(sa.text("SELECT * FROM orders WHERE k = :k"), con, params={"k": 1})
        assert frame.name.tolist() == ["pen"]
        assert str(frame["at"].dtype).startswith("datetime64[")
        parts = pd.read_sql("SELECT n FROM numbers", con, chunksize=300)
        assert [len(part) for part in parts] == [300, 300, 300, 100]
    engine.dispose()
    with warnings.catch_warnings(), shop.connect() as con:
        warnings.simplefilter("ignore")  # pandas wants SQLAlchemy
        assert pd.read_sql("SELECT count(*) AS c FROM numbers", con).c.tolist() == [1000]


def test_asyncpg_runs_queries(shop) -> None:
    """Parameters have the types that the statement names; results are binary."""
    asyncpg = pytest.importorskip("asyncpg")
    import asyncio

    async def run() -> None:
        con = await asyncpg.connect(host="127.0.0.1", port=shop.port, user="me", database="shop")
        rows = await con.fetch("SELECT k, name, price, tags FROM orders WHERE name = $1", "pen")
        assert [tuple(row)[:2] for row in rows] == [(1, "pen")]
        assert len(await con.fetch("SELECT n FROM numbers LIMIT $1", 7)) == 7
        await con.reset()
        await con.close()

    asyncio.run(run())


@pytest.mark.skipif(not JAR, reason="PGJDBC names no JAR: make postgres fetches it")
def test_pgjdbc(shop) -> None:
    """Metadata, values in both formats, prepared statements, portions, errors, cancel."""
    url = f"jdbc:postgresql://127.0.0.1:{shop.port}/shop?user=me"
    command = ["java", "-cp", JAR, str(HERE / "JdbcClient.java"), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.stderr == ""
    wanted = (HERE / "jdbc_client.txt").read_text()
    assert done.stdout == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("metabase", {"orders", "v", "mv", "Odd Name", "what was bought", "the key", "numeric"}),
        ("dbeaver", {"shop", "default", "s", "int4"}),
        ("grafana", {"orders", 's."Odd Name"', "integer"}),
        ("npgsql", {"int4", "_int4"}),
    ],
)
def test_questions_of_tools(shop, name, wanted) -> None:
    """What a tool asks of the catalog is answered, with the names that it looks for."""
    values = set[object]()
    with shop.connect() as con:
        for question in (HERE / "questions" / f"{name}.sql").read_text().split(";\n"):
            done = con.execute(question)
            if done.description is not None:
                values.update(value for row in done for value in row if isinstance(value, str))
    assert wanted <= values
