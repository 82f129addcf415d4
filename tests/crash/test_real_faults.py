"""Faults of the disk, the log and the clock on real Delta, and what is said meanwhile.

After each: contents equal the model, each T once, no orphan after cleaning; meanwhile an error
that says what, where and what to do; and it goes on when the fault is gone.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log import clock
from tests.helpers import sample_warehouse as kept
from tests.helpers.failing_disks import filled, needs_root, read_only, small_disk
from tests.helpers.table_folder import folder, log, tree

READ = "SELECT * FROM latest, copy, summed"
HOW = ("empty", "cut", "cut at a line", "garbage")


def _problems(con: Connection, *statements: str) -> list[CtsqlError]:
    """Run statements, all of them; gives what they raise."""
    found = []
    for sql in statements:
        try:
            result = con.execute(sql)
            if result.has_rows:
                result.fetchall()
        except CtsqlError as problem:
            found.append(problem)
    return found


def _spoilt(data: bytes, how: str) -> bytes:
    match how:
        case "empty":
            return b""
        case "cut":
            return data[: len(data) // 2]
        case "cut at a line":
            return data.splitlines(keepends=True)[0]
        case _:
            return bytes(range(256))


def _damaged(con: Connection, warehouse: Path, name: str) -> None:
    """Damage a table's last commit in every way, look each time; restore it, and go on."""
    table = kept.files_of(con, warehouse)[name]
    last = max((table / "_delta_log").glob("*.json"))
    data = last.read_bytes()
    batch = max(kept.batches(con)) + 1
    for how in HOW:
        last.write_bytes(_spoilt(data, how))
        kept.forget(con)
        fresh = open_connection(str(warehouse))
        found = _problems(
            fresh,
            f"INSERT INTO feed VALUES (1, {batch})",
            READ,
            "CREATE TABLE IF NOT EXISTS other (k INT)",
        )
        assert found, f"{name} {how}: nothing was said"
        for problem in found:
            kept.check_said(problem, "STORED_DATA_INVALID")
            assert last.name in (problem.detail or "")
        assert max((table / "_delta_log").glob("*.json")) == last, "nothing is written on top of it"
    last.write_bytes(data)
    kept.forget(con)
    again = open_connection(str(warehouse))
    kept.insert(again, [1, 7], batch=batch + 1)
    kept.check(again, name)
    _problems(again, "DROP TABLE IF EXISTS other")


@pytest.mark.slow
def test_any_damage_of_any_last_commit(con: Connection, warehouse: Path) -> None:
    """Of every table, the timeline and the catalog: nothing is read or written past it."""
    kept.set_up(con)
    for name in (*kept.TABLES, "timeline", "catalog"):
        _damaged(con, warehouse, name)
    kept.check_clean(open_connection(str(warehouse)))


def test_a_damaged_source_stops_its_readers_only(con: Connection, warehouse: Path) -> None:
    """Other tables are read and written, and their outputs follow; then it is mended."""
    con.execute("CREATE TABLE a (k INT); CREATE TABLE b (k INT)")
    con.execute("CREATE MATERIALIZED VIEW of_a AS SELECT count(*) AS n FROM a")
    con.execute("CREATE MATERIALIZED VIEW of_b AS SELECT count(*) AS n FROM b")
    for _ in range(3):
        con.execute("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)")
    logged = folder(con, "a") / "_delta_log"
    *_, before, last = sorted(logged.glob("0*.json"))
    for broken, how in ((last, "empty"), (before, "missing")):
        data = broken.read_bytes()
        broken.write_bytes(b"") if how == "empty" else broken.unlink()
        kept.forget(con)
        fresh = open_connection(str(warehouse))
        fresh.execute("INSERT INTO b VALUES (2)")
        fresh.execute("CREATE TABLE IF NOT EXISTS other (k INT)")
        with pytest.raises(CtsqlError, match="STORED_DATA_INVALID"):
            fresh.run(once=True, workers=2)
        fresh.execute("SET isolation = 'serializable'")
        counted = fresh.execute("SELECT of_b.n, (SELECT count(*) FROM b) FROM of_b").fetchall()
        assert counted in ([(4, 4)], [(5, 5)]), how
        fresh.execute("RESET isolation")
        found = _problems(
            fresh, "SELECT * FROM a", "SELECT * FROM of_a", "INSERT INTO a VALUES (1)"
        )
        assert len(found) == 3, how
        for problem in found:
            kept.check_said(problem, "STORED_DATA_INVALID")
            assert broken.name in (problem.detail or ""), how
        broken.write_bytes(data)
        kept.forget(con)
        again = open_connection(str(warehouse))
        assert again.execute("SELECT n FROM of_a").fetchall() == [(3,)]


@pytest.mark.slow
def test_a_damaged_checksum(con: Connection, warehouse: Path) -> None:
    """A version's checksum file only saves work: damaged is as good as not there."""
    kept.set_up(con)
    for table in kept.files_of(con, warehouse).values():
        for path in (table / "_delta_log").glob("0*.crc"):
            path.write_text('{"half": ')
    kept.forget(con)
    again = open_connection(str(warehouse))
    kept.insert(again, [2, 3], batch=2)
    kept.check(again, "damaged checksums")


def test_a_read_only_disk(con: Connection, warehouse: Path) -> None:
    """Writing says so and changes nothing; a read-only connection reads; then it goes on."""
    kept.set_up(con)
    kept.insert(con, [2, 3], batch=2)
    before = tree(warehouse)
    with read_only(warehouse):
        found = _problems(
            con, "INSERT INTO feed VALUES (1, 3)", READ, "CREATE TABLE other (k INT)",
            "DROP TABLE feed CASCADE",
        )  # fmt: skip
        assert len(found) == 4
        for problem in found:
            kept.check_said(problem, "STORAGE_ERROR")
        reader = open_connection(str(warehouse), read_only=True)
        held = reader.execute("SELECT * FROM copy").fetchall()
        assert len(held) == 4, "what is not stored is computed in memory"
        fresh = open_connection(str(warehouse / "new"))
        (refused,) = _problems(fresh, "CREATE TABLE other (k INT)")
        kept.check_said(refused, "STORAGE_ERROR")
    assert tree(warehouse) == before
    kept.check(con, "after a read-only disk")
    assert kept.batches(con) == {1, 2}
    kept.check_clean(con)


@needs_root
@pytest.mark.parametrize(
    "left",
    [0, *(pytest.param(left, marks=pytest.mark.slow) for left in (3_000, 20_000, 60_000))],
)
def test_a_full_disk(left: int, connect: Callable[[], Connection], tmp_path: Path) -> None:
    """At whichever write the room ends: what is in is in whole, the rest is done when there is."""
    place = tmp_path / "disk"
    with small_disk(place, 24):
        con = open_connection(str(place / "warehouse"), master="local[2]")
        kept.set_up(con)
        wide = "INSERT INTO feed SELECT CAST(id AS INT), {} FROM range(3000)"
        with filled(place, left=left):
            found = _problems(
                con, wide.format(2), READ, wide.format(3), READ, "CREATE TABLE other (k INT)", READ
            )
            assert found, "the disk is full"
            for problem in found:
                kept.check_said(problem, "STORAGE_ERROR", "COMMIT_UNKNOWN")
        kept.insert(con, [1, 2], batch=4)
        kept.check(con, f"after a full disk, {left} bytes left")
        held = con.execute("SELECT v, count(*) AS n FROM feed GROUP BY v").fetchall()
        assert {(v, n) for v, n in held} <= {(1, 2), (2, 3000), (3, 3000), (4, 2)}
        kept.forget(con)
        again = open_connection(str(place / "warehouse"))
        kept.check(again, "after a full disk, in a new process")
        kept.check_clean(again)


@pytest.mark.slow
def test_a_clock_that_goes_back(
    con: Connection, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour back, for Delta's commits as for ours: times go on strictly upwards."""
    kept.set_up(con)
    kept.forget(con)
    fresh = open_connection(str(warehouse))
    jvm = con.spark._jvm
    assert jvm is not None
    now = clock.now_ms() + 3_600_000
    hands = jvm.org.apache.spark.util.ManualClock(now)
    monkeypatch.setattr(clock, "now_ms", lambda: hands.getTimeMillis())
    tables = kept.files_of(con, warehouse)
    for table in tables.values():
        path = jvm.org.apache.hadoop.fs.Path(table.as_uri())
        log_class = jvm.org.apache.spark.sql.delta.DeltaLog
        log_class.forTable(con.spark._jsparkSession, path, hands)  # it stays the log's clock
    for batch, step in enumerate((0, -3_600_000, 5, -7_200_000, 60_000), start=2):
        hands.setTime(hands.getTimeMillis() + step)
        kept.insert(fresh, [1, batch], batch=batch)
        fresh.execute(READ).fetchall()
    kept.check(fresh, "after the clock went back")
    for name, table in tables.items():
        said = [a["commitInfo"]["inCommitTimestamp"] for c in log(table) for a in c[:1]]
        assert said == sorted(set(said)), f"{name}: in-commit timestamps go up"
        assert max(said) >= now or name == "catalog"
    bound = [
        t
        for c in log(tables["timeline"])
        for a in c
        if "commitInfo" in a and "userMetadata" in a["commitInfo"]
        for t, *_ in json.loads(a["commitInfo"]["userMetadata"]).get("bindings", [])
    ]
    assert bound == sorted(set(bound)), "T goes up"
    assert os.path.getmtime(tables["feed"]) * 1000 < now
