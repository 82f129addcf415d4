"""MAINTAIN and SHOW RETENTION on real Delta: what goes, what stays, and that nobody misses it."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection, connect as connect_to
from ctsql.runtime.maintenance import retention
from tests.conftest import TEST_MASTER
from tests.helpers.clock_ahead import Clock
from tests.helpers.opened import engine_of
from tests.helpers.table_folder import data_files, folder, log, named_files, tree
from tests.scenarios.runner import assert_rows, expect_error

TWO_DAYS = 2 * 86_400
COPY = (
    "CREATE CONTINUAL TASK {0} (k INT, v INT) ON INPUT {1} AS (INSERT INTO {0} SELECT * FROM {1})"
)
UPSERT = (
    "CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT t AS ("
    " DELETE FROM latest WHERE k IN (SELECT k FROM t);"
    " INSERT INTO latest SELECT k, max(v) FROM t GROUP BY k)"
)


def _report(con: Connection, statement: str) -> dict[str, dict[str, object]]:
    """The rows of MAINTAIN by name."""
    result = con.execute(statement)
    return {str(r[1]): dict(zip(result.columns, r, strict=True)) for r in result.fetchall()}


def _age(*paths: Path) -> None:
    """Make files look two days old."""
    then = time.time() - TWO_DAYS
    for path in paths:
        os.utime(path, (then, then))


@pytest.mark.slow
def test_consumers_that_are_behind_or_failed_catch_up_exactly(
    con: Connection, warehouse: Path
) -> None:
    """MAINTAIN with RETAIN '0 seconds' keeps for each consumer what it has not read."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
    con.execute(COPY.format("slow", "t"))
    con.execute(UPSERT)
    con.execute(COPY.format("second", "latest"))
    con.execute(
        "CREATE CONTINUAL TASK ratios (k INT, r INT) ON INPUT t AS"
        " (INSERT INTO ratios SELECT k, 100 DIV v FROM t)"
    )
    con.execute("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(v) AS s FROM latest")
    con.execute("INSERT INTO t VALUES (1, 3), (1, 4)")
    con.execute("INSERT INTO t VALUES (3, 0)")
    expect_error(con, "SELECT * FROM ratios", "TASK_FAILED")
    con.execute("UPDATE t SET v = 9 WHERE k = 1 AND v = 3")
    con.execute("DELETE FROM t WHERE k = 2")
    con.execute("INSERT INTO t VALUES (2, 5)")
    con.execute("SELECT * FROM latest; INSERT INTO t VALUES (4, 50)")
    con.execute("SELECT * FROM latest; DELETE FROM t WHERE k = 4; INSERT INTO t VALUES (4, 10)")
    before = tree(warehouse)
    dry = _report(con, "MAINTAIN ALL RETAIN '0 seconds' DRY RUN")
    assert before == tree(warehouse), "DRY RUN changes nothing"
    done = _report(con, "MAINTAIN ALL RETAIN '0 seconds'")
    assert set(done) == set(dry) == {
        "t", "slow", "latest", "second", "ratios", "total", "catalog", "timeline"
    }  # fmt: skip
    assert "slow" in str(done["t"]["kept_for"])
    assert done["t"]["oldest_version_kept"] == 1
    assert "second" in str(done["latest"]["kept_for"])
    assert int(str(done["t"]["files_compacted"])) > 1
    # Everything twice: nothing is left to do but for what compaction just replaced.
    again = _report(con, "MAINTAIN ALL RETAIN '0 seconds'")
    assert [r["files_compacted"] for r in again.values()] == [0] * len(again)
    copied = [(1, 1), (2, 2), (1, 3), (1, 4), (3, 0), (1, 9), (2, 5), (4, 50), (4, 10)]
    assert_rows(con.execute("SELECT * FROM slow").fetchall(), copied, "slow")
    latest = [(1, 9), (2, 5), (3, 0), (4, 10)]
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), latest, "latest")
    assert con.execute("SELECT * FROM total").fetchall() == [(4, 24)]
    second = [(1, 1), (2, 2), (1, 4), (3, 0), (1, 9), (2, 5), (4, 50), (4, 10)]
    assert_rows(con.execute("SELECT * FROM second").fetchall(), second, "second")
    expect_error(con, "ALTER CONTINUAL TASK ratios RETRY", "TASK_FAILED")
    con.execute("ALTER CONTINUAL TASK ratios SKIP")
    ratios = [(k, 100 // v) for k, v in copied if v]
    assert_rows(con.execute("SELECT * FROM ratios").fetchall(), ratios, "ratios")
    done = _report(con, "MAINTAIN ALL RETAIN '0 seconds'")
    for name in ("t", "latest", "slow"):
        # Delta's DML leaves vectors that it did not commit, when it took the whole file away.
        left = [f for f in data_files(folder(con, name)) if f.endswith(".parquet")]
        assert len(left) == 1, f"{name}: all is read, one file is left"
    assert_rows(con.execute("SELECT * FROM latest").fetchall(), latest, "latest, compact")


def test_what_waits_for_the_end_of_an_interval_is_kept(con: Connection, ahead: Clock) -> None:
    """A task with COALESCE has yet to run for it, though it is complete through now."""
    con.execute("CREATE TABLE t (k INT, v INT)")
    options = "ON INPUT t WITH (COALESCE = '1 day', SNAPSHOT = false)"
    con.execute(COPY.format("daily", "t").replace("ON INPUT t", options))
    con.execute("INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO t VALUES (3, 3)")
    con.execute("DELETE FROM t WHERE k = 3; INSERT INTO t VALUES (4, 4)")
    assert con.execute("SELECT * FROM daily").fetchall() == []
    done = _report(con, "MAINTAIN ALL RETAIN '0 seconds'")
    assert 'continual task "daily"' in str(done["t"]["kept_for"])
    ahead.ahead += 86_400_000
    assert_rows(con.execute("SELECT k FROM daily").fetchall(), [(1,), (2,), (4,)], "once")


def test_the_past_stays_readable_for_as_long_as_it_is_said(con: Connection) -> None:
    """AS OF within the retention works after MAINTAIN; behind it, it may not."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1)")
    con.execute(UPSERT)
    con.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    con.execute("SELECT * FROM latest; SELECT * FROM n")
    then = con.now()
    con.execute("INSERT INTO t VALUES (1, 2); DELETE FROM t WHERE v = 1; SELECT * FROM latest")
    con.execute("SELECT * FROM n")
    past = {name: f"SELECT * FROM {name} AS OF {then}" for name in ("t", "latest", "n")}
    told = {name: con.execute(text).fetchall() for name, text in past.items()}
    done = _report(con, "MAINTAIN ALL")
    assert {r["files_removed"] for r in done.values()} == {0}
    assert {name: con.execute(text).fetchall() for name, text in past.items()} == told
    done = _report(con, "MAINTAIN latest RETAIN '0 seconds'")
    assert set(done) == {"latest"}
    assert int(str(done["latest"]["files_removed"])) > 0
    assert con.execute(past["t"]).fetchall() == told["t"]
    expect_error(con, past["latest"], "STORAGE_ERROR")
    assert con.execute("SELECT * FROM latest").fetchall() == [(1, 2)]


def test_files_of_partitions_with_signs_are_known_by_their_names(con: Connection) -> None:
    """A task that is behind has all rows of partitions that folders cannot be called after."""
    values = ("a/b", "10:00", "c%d", "e f", None)
    told = ", ".join(f"({n}, {'NULL' if v is None else repr(v)})" for n, v in enumerate(values))
    con.execute("CREATE TABLE t (k INT, p STRING) PARTITIONED BY (p)")
    con.execute(
        "CREATE CONTINUAL TASK x (k INT, p STRING, d BIGINT) ON INPUT t AS"
        " (INSERT INTO x SELECT k, p, diff FROM changes(t)); ALTER CONTINUAL TASK x SUSPEND"
    )
    begun = con.now()
    con.execute(f"INSERT INTO t VALUES {told}; UPDATE t SET k = k + 10; DELETE FROM t")
    _age(*(p for p in folder(con, "t").rglob("*.parquet") if "_delta_log" not in p.parts))
    done = _report(con, "MAINTAIN ALL RETAIN '0 seconds'")
    assert done["t"]["files_removed"] == 0
    con.execute("ALTER CONTINUAL TASK x RESUME")
    wanted = [(n + m, v, d) for n, v in enumerate(values) for m in (0, 10) for d in (1, -1)]
    assert_rows(con.execute("SELECT * FROM x").fetchall(), wanted, "x")
    con.execute(f"REPLAY CONTINUAL TASK x FROM {begun + 1}")
    assert_rows(con.execute("SELECT * FROM x").fetchall(), wanted, "x, replayed")
    _age(*(p for p in folder(con, "t").rglob("*.parquet") if "_delta_log" not in p.parts))
    con.execute("MAINTAIN ALL RETAIN '0 seconds'")
    assert not [f for f in data_files(folder(con, "t")) if f.endswith(".parquet")]


def test_a_warehouse_is_in_a_folder_whose_name_has_signs(con: Connection, tmp_path: Path) -> None:
    """All is written into it, and nothing into the folder of the decoded name."""
    home = tmp_path / "home"
    place = home / "a b%20c#d?e" / "t%2523"
    with connect_to(str(place), spark=con.spark) as other:
        other.execute("CREATE TABLE x (k INT, v INT); INSERT INTO x VALUES (1, 1), (2, 2), (3, 3)")
        other.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, sum(v) AS v FROM x")
        other.execute("UPDATE x SET v = 7 WHERE k = 1; DELETE FROM x WHERE k = 2; MAINTAIN ALL")
        other.execute("MERGE INTO x USING (SELECT 4 AS k) AS s ON x.k = s.k WHEN NOT MATCHED"
                      " THEN INSERT (k, v) VALUES (4, 4)")  # fmt: skip
        assert sorted(other.execute("SELECT * FROM x").fetchall()) == [(1, 7), (3, 3), (4, 4)]
        assert other.execute("SELECT * FROM n").fetchall() == [(3, 14)]
        assert {r[3] for r in other.status().fetchall()} == {"up to date"}
    assert [p.name for p in home.iterdir()] == ["a b%20c#d?e"]
    assert [p.name for p in place.parent.iterdir()] == ["t%2523"]


def test_left_over_files_and_folders(con: Connection, warehouse: Path) -> None:
    """What no commit and no object names goes when it is old; what is young or foreign stays."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1)")
    con.execute(UPSERT)
    table = folder(con, "latest")
    (live,) = data_files(table)
    old, young = table / "part-old.parquet", table / "part-young.parquet"
    other = table / "_others" / "part.parquet"
    other.parent.mkdir()
    for path in (old, young, other):
        path.write_bytes((table / live).read_bytes())
    home = table.parent
    names = ("dropped-0123abcd", "mine", "young-0123abcf")
    for name in names:
        (home / name / "_delta_log").mkdir(parents=True)
        (home / name / "_delta_log" / "0.json").write_text("{}")
    _age(old, other, *(p for n in names[:2] for p in (home / n).rglob("*")))
    _age(*(home / n for n in names[:2]))
    done = _report(con, "MAINTAIN RETAIN '0 seconds'")
    assert "t" not in done, "only outputs, unless tables are asked for"
    assert done["latest"]["files_removed"] == 1
    assert not old.exists()
    assert young.exists()
    assert other.exists()
    assert done["dropped-0123abcd"]["kind"] == "left-over folder"
    assert {p.name for p in home.iterdir()} >= {"mine", "young-0123abcf"}
    assert not (home / "dropped-0123abcd").exists()


def test_a_maintain_with_nothing_to_compact_starts_no_process(
    con: Connection, tmp_path: Path
) -> None:
    """Hadoop starts one for each file whose permissions are asked for: 10 s at 2,000 files."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1)")
    con.execute(UPSERT)
    con.execute("SELECT * FROM latest")
    con.execute("MAINTAIN ALL")  # what it commits starts processes
    dropped = folder(con, "latest").parent / "dropped-0123abcd"
    inside = dropped / "_delta_log" / "0.json"
    inside.parent.mkdir(parents=True)
    inside.write_text("{}")
    _age(inside, inside.parent, dropped)
    jvm = con.spark._jvm
    assert jvm is not None
    recording = jvm.jdk.jfr.Recording()
    recording.enable("jdk.ProcessStart")
    recording.start()
    done = _report(con, "MAINTAIN ALL RETAIN '0 seconds'")
    recording.stop()
    kept = jvm.java.io.File(str(tmp_path / "processes.jfr")).toPath()
    recording.dump(kept)
    recording.close()
    events = jvm.jdk.jfr.consumer.RecordingFile.readAllEvents(kept)
    assert [str(e.getString("command")) for e in events] == []
    assert done["dropped-0123abcd"]["files_removed"] == 1


@pytest.mark.slow
def test_an_attached_table_is_maintained_only_by_name(con: Connection, tmp_path: Path) -> None:
    """Its log is left alone; a plain view cannot be maintained."""
    place = tmp_path / "attached"
    for n in range(3):
        con.spark.range(n + 1).coalesce(1).write.format("delta").mode("overwrite").save(str(place))
    con.execute(f"CREATE TABLE a LOCATION '{place}'; CREATE VIEW v AS SELECT * FROM a")
    before = data_files(place)
    assert "a" not in _report(con, "MAINTAIN ALL RETAIN '0 seconds'")
    assert data_files(place) == before
    commits = len(log(place))
    assert _report(con, "MAINTAIN a RETAIN '0 seconds'")["a"]["files_removed"] == 2
    assert len(data_files(place)) == 1
    assert len(log(place)) == commits
    assert con.execute("SELECT count(*) FROM v").fetchall() == [(3,)]
    expect_error(con, "MAINTAIN v", "WRONG_OBJECT_KIND")
    expect_error(con, "SHOW RETENTION nothing", "UNKNOWN_RELATION")


def test_show_retention(connect: Callable[[], Connection], warehouse: Path) -> None:
    """One row for each consumer, the one that holds most first; nothing is written."""
    con = connect()
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1)")
    con.execute(COPY.format("slow", "t"))
    con.execute(UPSERT)
    con.execute("SUBSCRIBE TO t UP TO NOW AS 'nightly'").fetchall()
    con.execute("INSERT INTO t VALUES (1, 2)")
    con.execute("SELECT * FROM latest")
    con.execute("UPDATE t SET v = 3 WHERE v = 2")
    con.execute("SELECT * FROM latest")
    rows = con.execute("SHOW RETENTION t").fetchall()
    assert sorted((r[4], r[3]) for r in rows[:2]) == [
        (2, 'continual task "slow"'),  # after the commit that lets t keep its log
        (2, "subscription 'nightly'"),
    ]
    assert [(r[3], r[4]) for r in rows[2:]] == [
        ('continual task "latest"', 4),
        ("reads of now", 4),
    ]
    assert all(r[7] == 0 for r in rows)
    con.execute("DROP SUBSCRIPTION nightly; SELECT * FROM slow")
    rows = con.execute("SHOW RETENTION").fetchall()
    freeable = {str(r[1]): r[7] for r in rows}
    assert int(str(freeable["t"])) > 0
    assert int(str(freeable["latest"])) > 0
    assert freeable["slow"] == 0
    with connect_to(str(warehouse), master=TEST_MASTER, read_only=True) as reader:
        assert reader.execute("SHOW RETENTION").fetchall() == rows
        expect_error(reader, "MAINTAIN", "READ_ONLY_MODE")
    table = folder(con, "t")
    sizes = {str(p.relative_to(table)): p.stat().st_size for p in table.rglob("*") if p.is_file()}
    kept = data_files(table)
    con.execute("MAINTAIN t RETAIN '0 seconds'")
    gone = kept - data_files(table)
    assert sum(sizes[f] for f in gone) >= int(str(freeable["t"]))
    assert all(r[7] == 0 for r in con.execute("SHOW RETENTION t").fetchall())


@pytest.mark.slow
def test_no_binding_is_lost_with_the_log(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs are cut behind a checkpoint; the timeline's bindings are rows by then."""
    con = connect()
    con.execute("CREATE TABLE t (k INT, v INT)")
    con.execute(COPY.format("copy", "t"))
    con.execute(COPY.format("slow", "t"))
    bound: list[tuple[int, int | None]] = []
    engine = engine_of(con)
    item = next(i for i in engine.catalog if i.name.name == "t")
    for k in range(4):
        con.execute(f"INSERT INTO t VALUES ({k}, {k}); SELECT * FROM copy")
        now = engine.timeline.now
        bound.append((now, engine.timeline.version_at(item.id, now)))
    tables = [engine.timeline.table, engine.catalog_store.table]
    tables += [engine.relations.table(i) for i in engine.catalog]
    for table in tables:
        table.update()
        table.handle.log.checkpoint(
            table.snapshot_in_jvm(table.version()), engine.gateway.option(None)
        )
    con.execute("INSERT INTO t VALUES (9, 9); SELECT * FROM copy")
    idle = connect()
    idle.execute("SELECT * FROM copy")
    monkeypatch.setattr(retention, "LOG_AGE_MS", -60_000)
    done = _report(con, "MAINTAIN ALL RETAIN '0 seconds'")
    for name in ("timeline", "catalog", "copy"):
        assert int(str(done[name]["log_files_removed"])) > 0, name
    assert done["t"]["log_files_removed"] == 0, "slow needs it"
    monkeypatch.undo()
    con.execute("INSERT INTO t VALUES (10, 10)")
    fresh = connect()
    rows = [(k, k) for k in (0, 1, 2, 3, 9, 10)]
    assert_rows(fresh.execute("SELECT * FROM slow").fetchall(), rows, "slow")
    for reader in (con, fresh, idle):
        assert_rows(reader.execute("SELECT * FROM copy").fetchall(), rows, "copy")
        assert bound == [(t, engine_of(reader).timeline.version_at(item.id, t)) for t, _ in bound]
    con.execute("MAINTAIN ALL; MAINTAIN ALL")
    again = connect()
    again.execute("SELECT * FROM copy")
    times = [b.time for b in engine_of(again).timeline.bindings_between(item.id, 0, 2**62)]
    assert times == sorted(set(times)), "no binding is there twice"


def test_compaction_is_no_change(con: Connection) -> None:
    """No T comes of it, and a follower of a compacted output sees nothing."""
    con.execute("CREATE TABLE t (k INT, v INT)")
    con.execute(UPSERT)
    con.execute(COPY.format("second", "latest"))
    for k in range(3):
        con.execute(f"INSERT INTO t VALUES ({k}, 1), (0, {k}); SELECT * FROM second")
    before = con.execute("SELECT * FROM second").fetchall()
    now = con.now()
    done = _report(con, "MAINTAIN ALL")
    assert int(str(done["latest"]["files_compacted"])) > 1
    assert_rows(con.execute("SELECT * FROM second").fetchall(), before, "second")
    assert engine_of(con).mint() == now
    last = log(folder(con, "latest"))[-1]
    changes = [a[k]["dataChange"] for a in last for k in ("add", "remove") if k in a]
    assert changes
    assert not any(changes)
    assert all(a.get("add", {}).get("deletionVector") is None for a in last)
    assert named_files(folder(con, "latest")) >= data_files(folder(con, "latest")) - {
        f for f in data_files(folder(con, "latest")) if f.endswith(".bin")
    }


def test_with_nothing_to_do_delta_opens_no_log(con: Connection, warehouse: Path) -> None:
    """A MAINTAIN of another process finds that out from the logs alone, and changes nothing."""
    con.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 1)")
    con.execute(UPSERT)
    con.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM latest")
    con.execute("INSERT INTO t VALUES (1, 2), (2, 3); SELECT * FROM n")
    first = _report(con, "MAINTAIN ALL")
    assert first["t"]["files_compacted"] == 2
    before = tree(warehouse)
    with connect_to(str(warehouse), master=TEST_MASTER) as other:
        again = _report(other, "MAINTAIN ALL")
        tables = engine_of(other).gateway.open_tables
        assert len(tables) >= 5
        assert [place for place, table in tables.items() if "log" in vars(table.handle)] == []
    assert again.keys() == first.keys()
    assert not any(row["files_compacted"] or row["files_removed"] for row in again.values())
    assert [row["oldest_version_kept"] for row in again.values()] == [
        row["oldest_version_kept"] for row in first.values()
    ]
    assert tree(warehouse) == before


def test_a_damaged_output_is_left_out(con: Connection, warehouse: Path) -> None:
    """The others are maintained, what it reads keeps what it may need, and the error names it."""
    con.execute("CREATE TABLE t (k INT, v INT)")
    for name in ("good", "broken"):
        con.execute(COPY.format(name, "t"))
    con.execute("CREATE MATERIALIZED VIEW above AS SELECT count(*) AS n FROM broken")
    for n in range(3):
        con.execute(f"INSERT INTO t VALUES ({n}, {n}); SELECT * FROM good; SELECT * FROM above")
    newest = max((folder(con, "broken") / "_delta_log").glob("*.json"))
    text = newest.read_text()
    newest.write_text("")
    with connect_to(str(warehouse), master=TEST_MASTER) as other:
        for statement in (
            "MAINTAIN ALL RETAIN '0 seconds' DRY RUN",
            "MAINTAIN ALL RETAIN '0 seconds'",
        ):
            told = expect_error(other, statement, "STORED_DATA_INVALID")
            assert newest.name in str(told)
            assert "Left out: broken. All other tables were maintained." in str(told.detail)
        told = expect_error(other, "MAINTAIN broken", "STORED_DATA_INVALID")
        assert "Left out" not in str(told.detail)
        assert len(data_files(folder(other, "good"))) == 1
        expect_error(other, "SHOW RETENTION", "STORED_DATA_INVALID")
    newest.write_text(text)
    with connect_to(str(warehouse), master=TEST_MASTER) as other:
        assert other.execute("SELECT count(*) FROM broken").fetchall() == [(3,)]
        other.execute("INSERT INTO t VALUES (9, 9)")
        assert other.execute("SELECT n FROM above").fetchall() == [(4,)]
        assert "broken" in _report(other, "MAINTAIN")


def test_an_output_with_a_damaged_commit_in_between_is_left_out(
    con: Connection, warehouse: Path
) -> None:
    """One that nothing reads but the search for commits that are old enough."""
    con.execute("CREATE TABLE t (k INT, v INT)")
    for name in ("good", "broken"):
        con.execute(COPY.format(name, "t"))
    for n in range(6):
        con.execute(f"INSERT INTO t VALUES ({n}, {n}); SELECT * FROM good; SELECT * FROM broken")
    commits = sorted((folder(con, "broken") / "_delta_log").glob("*.json"))
    commits[len(commits) // 2].write_text("")
    with connect_to(str(warehouse), master=TEST_MASTER) as other:
        told = expect_error(other, "MAINTAIN RETAIN '0 seconds'", "STORED_DATA_INVALID")
        assert "Left out: broken. All other tables were maintained." in str(told.detail)
    assert len(data_files(folder(con, "good"))) == 1
