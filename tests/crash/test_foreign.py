"""A Spark job and delta-rs write tables of theirs while ctsql reads them and is killed."""

import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.crash.killed_processes import SECONDS_TO_END, Child, crew_of, seconds, stored, table_of
from tests.crash.test_killed import killing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def _rows(n: int, count: int) -> pa.Table:
    numbers = pa.array([n] * count, pa.int64())
    return pa.table({"n": numbers, "i": pa.array(range(count), pa.int64())})


def write_by_delta_rs(table: Path, drawn: str, until: float) -> Counter[tuple[int, int]]:
    """Append, delete, overwrite and compact until then; gives what the table must hold."""
    draw, model, n = random.Random(drawn), Counter(stored(table, "n, i")), 0
    while time.monotonic() < until:
        n += 1
        count = draw.choice([1, 2, 30])
        match draw.choice(["append"] * 6 + ["delete", "overwrite", "compact"]):
            case "append":
                write_deltalake(table, _rows(n, count), mode="append")
                model += Counter((n, i) for i in range(count))
            case "delete":
                gone = draw.randrange(1, n + 1)
                DeltaTable(table).delete(f"n = {gone}")
                model = Counter({row: c for row, c in model.items() if row[0] != gone})
            case "overwrite":
                write_deltalake(table, _rows(n, count), mode="overwrite")
                model = Counter((n, i) for i in range(count))
            case _:
                DeltaTable(table).optimize.compact()
        time.sleep(draw.choice([0, 0.1, 1]))
    return model


def test_writers_of_other_engines(warehouse: Path, tmp_path: Path) -> None:
    """Tasks and views over their tables are right at every read, and equal what they hold."""
    tables = {"by_rust": tmp_path / "by_rust", "by_spark": tmp_path / "by_spark"}
    for table in tables.values():
        write_deltalake(table, _rows(0, 3))
    with crew_of(warehouse, tmp_path) as crew:
        crew.run("attach", *(f"{name}={table}" for name, table in tables.items()))
        draw, lasting = random.Random(crew.seed), seconds(75)

        def start(name: str, left: float) -> Child:
            left = max(left, 5)
            return (
                crew.service() if name == "service" else crew.program(name, *tables, lasting=left)
            )

        running = {name: start(name, lasting) for name in ("service", "beside")}
        spark = crew.program("spark_writer", lasting=lasting, place=str(tables["by_spark"]))
        spark.wait_for("ready")
        until = time.monotonic() + lasting
        models: list[Counter[tuple[int, int]]] = []
        rust = threading.Thread(
            target=lambda: models.append(write_by_delta_rs(tables["by_rust"], crew.seed, until))
        )
        rust.start()
        killing(crew, draw, running, until, start)
        rust.join()
        spark.finish(SECONDS_TO_END)
        running["beside"].finish(SECONDS_TO_END)
        running["service"].stop()
        last = crew.run("beside", *tables)
        seen = [e for e in crew.events if e[0] == "seen"]
        assert len(seen) > 4
        assert not [e for e in seen if not e[2] == e[3] == e[4]], "a read that was no one cut"
        assert [e for e in last if e[0] == "verify" and e[2]] == []
        (mine,) = (e[1] for e in last if e[0] == "mine")
        assert all(held == logged for held, logged in mine), "an INSERT that read no one cut"
        assert crew.report()["service, others writing"] + crew.kills["beside, between"]
        for child in crew.children:
            assert "Traceback" not in child.log.read_text(), child.said()
        assert models == [Counter(stored(tables["by_rust"], "n, i"))]
        for name, table in tables.items():
            check_followed(warehouse, name, Counter(stored(table, "n, i")))


def check_followed(warehouse: Path, name: str, held: Counter[tuple[Any, ...]]) -> None:
    """The log of changes adds up to what the table holds, and the view is its groups."""
    net: Counter[tuple[Any, ...]] = Counter()
    for n, i, d in stored(table_of(warehouse, f"{name}_log"), "n, i, d"):
        net[n, i] += d
    assert {row: count for row, count in net.items() if count} == dict(held), name
    groups: dict[int, list[int]] = {}
    for n, i in held.elements():
        groups.setdefault(n, []).append(i)
    seen = stored(table_of(warehouse, f"{name}_seen"), "n, c, s")
    assert sorted(seen) == sorted((n, len(i), sum(i)) for n, i in groups.items()), name
