"""The time of a SELECT of 100 rows by the protocol, as a multiple of ``con.execute``.

Both run in one process, in turns, so other load on the machine affects both. Run it with
``python benchmark.py``.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import psycopg
from ctsql_postgres import serving

import ctsql

QUERY = "SELECT k, name, price, at FROM orders"


def seconds(work: Callable[[], object]) -> float:
    """The seconds of a call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Measure, and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        con = ctsql.connect(f"{folder}/warehouse")
        con.execute("CREATE TABLE orders (k INT, name STRING, price DECIMAL(8, 2), at TIMESTAMP)")
        con.execute(
            "INSERT INTO orders SELECT id, concat('item ', id), id / 100,"
            " TIMESTAMP '2026-01-01 00:00:00Z' FROM range(100)"
        )
        with serving(con) as running:
            address = f"host=127.0.0.1 port={running.port} user=me dbname=shop"
            with psycopg.connect(address, autocommit=True) as client:

                def direct() -> int:
                    return len(con.execute(QUERY).fetchall())

                def served() -> int:
                    return len(client.execute(QUERY).fetchall())

                for _ in range(5):
                    assert direct() == served() == 100
                pairs = [(seconds(direct), seconds(served)) for _ in range(rounds)]
        con.close()
    one, other = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(other / one for one, other in pairs)
    sys.stdout.write(
        f"con.execute      {one * 1000:.1f} ms\npsycopg          {other * 1000:.1f} ms\n"
        f"ratio of a pair  {ratio:.2f}\n"
    )


if __name__ == "__main__":
    main()
