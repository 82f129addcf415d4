"""TPC-H on DuckDB: data and queries of its extension on PyPI, and rounds of changes."""

from pathlib import Path

import duckdb
import duckdb_extension_tpch
import sqlglot

from ctsql.catalog.schemas import Column
from tests.differential.plans_on_duckdb import Duck

SCALE = 0.01
SPARK = {"INTEGER": "int", "VARCHAR": "string"}
"""What Spark calls DuckDB's types, where that is another name."""
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
KEYS = {
    "customer": "c_custkey",
    "lineitem": "l_orderkey",
    "nation": "n_nationkey",
    "orders": "o_orderkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey",
    "region": "r_regionkey",
    "supplier": "s_suppkey",
}
UPDATES = {
    "customer": "c_acctbal = -c_acctbal, c_mktsegment = 'BUILDING'",
    "lineitem": "l_quantity = l_quantity + 1, l_extendedprice = l_extendedprice * 2",
    "nation": "n_regionkey = (n_regionkey + 1) % 5",
    "orders": "o_totalprice = o_totalprice + 1, o_orderdate = o_orderdate + INTERVAL 1 DAY",
    "part": "p_size = p_size % 50 + 1, p_type = 'PROMO ' || p_type",
    "partsupp": "ps_supplycost = ps_supplycost / 2",
    "region": "r_comment = 'changed'",
    "supplier": "s_acctbal = s_acctbal + 1, s_nationkey = (s_nationkey + 1) % 25",
}
PARTS = {"nation": 7, "region": 4}
"""Of how many rows one is deleted, doubled and updated, where it is not 37."""


def loaded() -> Duck:
    """A database with the eight tables."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": True, "threads": 2})
    connection.execute("SET memory_limit = '4GB'")
    folder = Path(duckdb_extension_tpch.__file__).parent
    (extension,) = folder.glob("extensions/*/tpch.duckdb_extension")
    connection.execute(f"LOAD '{extension}'; CALL dbgen(sf = {SCALE})")
    tables = {
        name: [
            Column(str(row[0]), SPARK.get(str(row[1]), str(row[1]).lower()))
            for row in connection.execute(f"DESCRIBE {name}").fetchall()
        ]
        for name in TABLES
    }
    return Duck(connection, tables)


def queries(duck: Duck) -> dict[int, str]:
    """The 22 queries in Spark's SQL, by number."""
    found = duck.connection.execute("SELECT query_nr, query FROM tpch_queries()").fetchall()
    return {n: sqlglot.transpile(q, read="duckdb", write="spark")[0] for n, q in found}


def change(duck: Duck, number: int, tables: tuple[str, ...] = TABLES) -> list[str]:
    """Round ``number`` of deletes, duplicates and updates on tables; those that changed."""
    run = duck.connection.execute
    for name in TABLES:
        duck.begin(name)
    for name in tables:
        key = KEYS[name]
        of = PARTS.get(name, 37)
        run(f"DELETE FROM {name} WHERE hash({key} + {number}) % {of} = 1")
        run(f"INSERT INTO {name} FROM {name}__old WHERE hash({key} + {number}) % {of} = 2")
        run(f"UPDATE {name} SET {UPDATES[name]} WHERE hash({key} + {number}) % {of} = 3")
    return [name for name in TABLES if duck.finish(name)]
