"""Foreign writers change columns, types and partitioning: right rows, or an error that says so."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from ctsql.api import Connection
from ctsql.catalog.dependencies import sources
from ctsql.catalog.errors import CtsqlError
from tests.helpers.foreign_writers import (
    ACTS,
    BASE,
    TASKS,
    VIEWS,
    Bag,
    Place,
    attach,
    bag,
    by_ctsql,
    by_spark,
)
from tests.helpers.opened import check_rows, engine_of
from tests.helpers.table_folder import log

READ = "SELECT k, s, v FROM {t}"


class TaskModel:
    """What the two tasks hold after each commit, as Spark reads its versions; by plain Python."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.told: Bag = Counter()
        self.latest: dict[Any, tuple[Any, ...]] = {}
        self.failures = {"told": 0, "latest": 0}
        self.version = place.version
        rows = by_spark(place, READ, self.version)
        assert rows is not None
        self._insert(rows)
        self.told += Counter({(*row, n): 1 for row, n in rows.items()})

    def follow(self) -> None:
        """Take in the commits since the last one."""
        for version in range(self.version + 1, self.place.version + 1):
            self._step(version)
        self.version = self.place.version

    def _kind(self, version: int) -> str | None:
        frame = self.place.spark.sql(f"SELECT * FROM {self.place.name} VERSION AS OF {version}")
        return dict(frame.dtypes).get("v")

    def _step(self, version: int) -> None:
        before, after = (by_spark(self.place, READ, v) for v in (version - 1, version))
        actions = log(Path(self.place.path))[version]
        adds = [a["add"] for a in actions if "add" in a and a["add"]["dataChange"]]
        moves = adds or any("remove" in a and a["remove"]["dataChange"] for a in actions)
        if after is None:
            self.failures["told"] += bool(before is not None or moves)
            self.failures["latest"] += bool(before is not None or adds)
            return
        if before is None:
            return  # what is there again, or anew and NULL, was not there to be changed
        was, now = self._kind(version - 1), self._kind(version)
        change = {r: after[r] - before[r] for r in after | before if after[r] != before[r]}
        if (was, now) == ("int", "string"):
            change = {**dict.fromkeys(before, -1), **after}
        if now == "string" or any(abs(r[2] or 0) > 2**31 for r in change):
            self.failures["told"] += bool(change)
            self.failures["latest"] += any(n > 0 for n in change.values())
            return
        self.told += Counter({(*row, n): 1 for row, n in change.items()})
        self._insert(Counter({r: n for r, n in change.items() if n > 0}))

    def _insert(self, rows: Bag) -> None:
        for key in {r[0] for r in rows}:
            mine = [r for r in rows if r[0] == key]
            texts = [r[1] for r in mine if r[1] is not None]
            self.latest[key] = (key, max(texts, default=None), max(r[2] for r in mine))


def check_act(con: Connection, folder: Path, act: str) -> None:
    """Play an act; after each step all readers are asked."""
    place = Place(con.spark, str(folder / "t"))
    place.make()
    attach(con, place)
    model = TaskModel(place)
    for number, step in enumerate(ACTS[act]):
        step(place)
        model.follow()
        at = f"{act}, step {number}"
        for name, text in VIEWS.items():
            _check_view(con, place, name, text, at)
        for name in TASKS:
            _check_task(con, model, name, at)
    _check_subscription(con, place, act)


def _check_view(con: Connection, place: Place, name: str, text: str, at: str) -> None:
    """A view holds what its query gives, or says that it cannot."""
    found, wanted = by_ctsql(con, f"SELECT * FROM {name}"), by_spark(place, text)
    if isinstance(found, CtsqlError):
        assert found.condition == "VIEW_FAILED", (at, name, found)
        says = ("of type" in found.message, "overflow" in found.message)
        assert wanted is None or any(says), (at, name, found)
    else:
        assert found == wanted, (at, name, wanted)


def _check_task(con: Connection, model: TaskModel, name: str, at: str) -> None:
    """A task holds what the model holds, and fails where it says so; then it is let go on."""
    failed = 0
    while isinstance(found := by_ctsql(con, f"SELECT * FROM {name}"), CtsqlError):
        assert found.condition == "TASK_FAILED", (at, name, found)
        failed += 1
        con.execute(f"ALTER CONTINUAL TASK {name} SKIP")
    assert failed == model.failures[name], (at, name, failed, model.failures)
    model.failures[name] = 0
    wanted = model.told if name == "told" else bag(list(model.latest.values()))
    assert found == wanted, (at, name, found - wanted, wanted - found)


def _check_subscription(con: Connection, place: Place, at: str) -> None:
    """The changes of the table add up to what it holds, or there is an error that says why not."""
    names = list(con.execute("SELECT * FROM t").columns)
    found = by_ctsql(con, "SUBSCRIBE TO t FROM 0 UP TO NOW")
    if isinstance(found, CtsqlError):
        assert found.condition in ("COLUMN_TYPE_CHANGED", "UNKNOWN_COLUMN"), (at, found)
        return
    total: Bag = Counter()
    for (_, diff, *row), n in found.items():
        total[tuple(row)] += diff * n
    wanted = by_spark(place, f"SELECT {', '.join(names)} FROM {{t}}")
    assert {r: n for r, n in total.items() if n} == wanted, at


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS)
def test_what_a_foreign_writer_changes_is_followed(
    con: Connection, tmp_path: Path, act: str
) -> None:
    """Views equal their queries and tasks see the net change, or both say at which T not."""
    check_act(con, tmp_path, act)


def test_partitioning_and_names_change(con: Connection, tmp_path: Path) -> None:
    """In short: an overwrite by delta-rs with other partitions, DROP and ADD, and RENAME."""
    place = Place(con.spark, str(tmp_path / "t"))
    place.make()
    con.execute(f"CREATE TABLE t LOCATION '{place.path}'")
    con.execute(f"CREATE CONTINUAL TASK told {TASKS['told']}")
    con.execute("CREATE MATERIALIZED VIEW kept AS SELECT k, s FROM t")
    rows = [(1, "a", 10, 1), (3, "c", 30, 3)]
    how: dict[str, Any] = {"mode": "overwrite", "schema_mode": "overwrite"}
    place.by_delta_rs(rows, "isii", partition_by=["k"], **how)
    found = by_ctsql(con, "SELECT * FROM told WHERE k IN (1, 2, 3)")
    kept = {(1, "a", 10, 1): 1, (2, "b", 20, 2): 1}
    assert found == {**kept, (2, "b", 20, -2): 1, (3, "c", 30, 1): 1}
    engine = engine_of(con)
    first, *_ = engine.timeline.bindings_between(
        sources(engine.catalog)[0].id, -1, engine.timeline.now
    )
    for text in (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} DROP COLUMN s",
    ):
        place.sql(text)
    for name, condition in (("kept", "VIEW_FAILED"), ("told", "TASK_FAILED")):
        problem = by_ctsql(con, f"SELECT * FROM {name}")
        assert isinstance(problem, CtsqlError)
        assert (problem.condition, 'column "s" does not exist' in problem.message) == (
            condition,
            True,
        )
    con.execute("ALTER CONTINUAL TASK told SKIP")
    place.sql("ALTER TABLE {t} ADD COLUMN s STRING")
    assert by_ctsql(con, "SELECT * FROM kept") == {(1, None): 1, (3, None): 1}
    assert by_ctsql(con, f"SELECT k, s FROM t AS OF {first.time}") == by_spark(
        place, "SELECT k, s FROM {t}", 1
    )
    place.sql("ALTER TABLE {t} RENAME COLUMN v TO x")
    place.sql("INSERT INTO {t} (k, x, w, s) VALUES (5, 50, 5, 'e')")
    assert by_ctsql(con, "SELECT * FROM kept") == {(1, None): 1, (3, None): 1, (5, "e"): 1}
    con.execute(
        "ALTER CONTINUAL TASK told AS (INSERT INTO told SELECT k, s, x, diff FROM changes(t))"
    )
    assert by_ctsql(con, "SELECT * FROM told WHERE k = 5") == {(5, "e", 50, 1): 1}
    _check_subscription(con, place, "in short")


def test_a_view_follows_after_a_column_it_does_not_name_is_gone(
    con: Connection, tmp_path: Path
) -> None:
    place = Place(con.spark, str(tmp_path / "t"))
    place.make()
    con.execute(f"CREATE TABLE t LOCATION '{place.path}'")
    con.execute(
        "CREATE MATERIALIZED VIEW rest WITH (REFRESH POLICY = incremental) AS SELECT k, v FROM t"
    )
    before = by_ctsql(con, "SELECT * FROM rest")
    for text in (
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} DROP COLUMN s",
    ):
        place.sql(text)
    assert by_ctsql(con, "SELECT * FROM rest") == before
    place.sql("INSERT INTO {t} (k, v) VALUES (4, 40)")
    assert by_ctsql(con, "SELECT * FROM rest") == {**before, (4, 40): 1}
    told = con.execute("EXPLAIN ANALYZE rest").fetchall()
    assert "incremental" in str(told[0][0])


@pytest.mark.slow
@pytest.mark.parametrize(("unseen", "reopened"), [(False, True), (True, True), (True, False)])
def test_columns_that_changed_after_a_cleaned_log(
    unseen: bool, reopened: bool, connect: Callable[[], Connection], tmp_path: Path
) -> None:
    """Whether the columns changed cannot be told then, which concerns that table alone.

    So it is where commits that have no T yet were cleaned up.
    """
    con = connect()
    place = Place(con.spark, str(tmp_path / "b"))
    place.make()
    con.execute(f"CREATE TABLE b LOCATION '{place.path}'")
    con.execute("CREATE TABLE other (k INT); INSERT INTO other VALUES (7)")
    con.execute("CREATE MATERIALIZED VIEW seen AS SELECT k, v FROM b")
    con.execute(
        "CREATE CONTINUAL TASK copied (k INT) ON INPUT b AS (INSERT INTO copied SELECT k FROM b)"
    )
    assert bag(con.execute("SELECT * FROM seen").fetchall()) == bag([(r[0], r[2]) for r in BASE])
    if reopened:
        con.close()
    early = [(6, "f", 60, 6), (7, "g", 70, 7)] if unseen else []
    for row in early:
        place.insert(row)
    place.sql("ALTER TABLE {t} ADD COLUMN more INT")
    kept = place.version
    DeltaTable(place.path).create_checkpoint()
    place.insert((5, "e", 50, 5, 5))
    for file in Path(place.path, "_delta_log").glob("*"):
        number = file.name.removeprefix(".")[:20]
        if number.isdigit() and int(number) < kept:
            file.unlink()
    place.spark.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    if reopened:
        con = connect()
    assert con.execute("SELECT * FROM other").fetchall() == [(7,)]
    rows = [(r[0], r[2]) for r in [*BASE, *early, (5, "e", 50, 5)]]
    assert bag(con.execute("SELECT k, v FROM b").fetchall()) == bag(rows)
    assert bag(con.execute("SELECT * FROM seen").fetchall()) == bag(rows)
    problem = by_ctsql(con, "SELECT * FROM copied")
    assert isinstance(problem, CtsqlError)
    assert problem.condition == "HISTORY_LOST"
    assert "ALTER CONTINUAL TASK copied SKIP" in str(problem.hint)
    skipped = con.execute("ALTER CONTINUAL TASK copied SKIP").status
    assert str(skipped).removesuffix(")").rpartition(" ")[2] in str(problem.hint)
    place.insert((8, "h", 80, 8, 8))
    found = sorted(r[0] for r in con.execute("SELECT k FROM copied").fetchall())
    # Where it had a T of its own, the commit that is still there is run.
    assert found in [sorted([*(r[0] for r in BASE), *more]) for more in ([8], [5, 8])]
    again = by_ctsql(con, "ALTER CONTINUAL TASK copied SKIP")
    assert isinstance(again, CtsqlError)
    assert again.condition == "TASK_NOT_FAILED"


def test_columns_that_are_mapped_by_id(connect: Callable[[], Connection], tmp_path: Path) -> None:
    """A process that has not asked for the table yet brings up what reads it."""
    con = connect()
    place = Place(con.spark, str(tmp_path / "t"))
    place.sql(
        "CREATE TABLE {t} (k INT, s STRING) USING delta"
        " TBLPROPERTIES ('delta.columnMapping.mode' = 'id')"
    )
    place.insert((1, "a"))
    con.execute(f"""
        CREATE TABLE t LOCATION '{place.path}';
        CREATE MATERIALIZED VIEW m AS SELECT k, s FROM t WHERE k > 0;
        CREATE CONTINUAL TASK c ON INPUT t AS (INSERT INTO c SELECT k, diff FROM changes(t))""")
    place.insert((2, "b"))
    check_rows(connect(), "SELECT * FROM m", (1, "a"), (2, "b"))
    place.sql("DELETE FROM {t} WHERE k = 1")
    check_rows(connect(), "SELECT * FROM c", (1, 1), (2, 1), (1, -1))
