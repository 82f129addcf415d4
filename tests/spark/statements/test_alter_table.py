"""ALTER TABLE: who reads a column is told before, and who does not goes on without a rebuild."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.parse import parse_as
from ctsql.runtime.log_reader import LogReader
from ctsql.runtime.statements.inspect.dump import dump
from ctsql.runtime.statements.tables import alter_table
from ctsql.runtime.statements.tables.altered_columns import altered_columns
from ctsql.runtime.statements.tables.effects_on_readers import effects_on_readers
from tests.helpers.opened import check_rows, engine_of
from tests.helpers.processes import run_killed
from tests.scenarios.runner import assert_rows, expect_error

FEW = """
CREATE TABLE t (k INT, v INT, w STRING);
INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b');
CREATE MATERIALIZED VIEW sums AS SELECT k, max(v) AS v FROM t GROUP BY k;
CREATE CONTINUAL TASK keys ON INPUT t AS (INSERT INTO keys SELECT k FROM t);
"""
SET_UP = f"""{FEW}
CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n FROM t GROUP BY k;
CREATE VIEW plain AS SELECT k, w FROM t;
CREATE CONTINUAL TASK below ON INPUT keys AS (INSERT INTO below SELECT k + 1 AS k FROM keys);
SELECT * FROM below
"""


def _effects(con: Connection, table: str, change: str) -> dict[str, str]:
    engine = engine_of(con)
    item = _table(con, table)
    statement = parse_as(st.AlterTable, f"ALTER TABLE {table} {change}", "test")
    columns = engine.relations.columns_now(item)
    after = altered_columns(columns, statement.change)
    effects = effects_on_readers(engine, item, columns, after)
    return {e.name: "breaks" if e.is_break else "changes" for e in effects}


def test_readers_are_asked(connect: Callable[[], Connection]) -> None:
    """What breaks a reader is refused by its name, nothing else."""
    con, other = connect(), connect()
    con.execute(SET_UP)
    con.execute("SUBSCRIBE TO plain UP TO NOW AS 'r'").fetchall()
    before = con.now()
    assert _effects(con, "t", "DROP COLUMN v") == {"sums": "breaks"}
    assert _effects(con, "t", "RENAME COLUMN w TO x") == {"plain": "breaks", "r": "breaks"}
    assert _effects(con, "t", "ALTER v TYPE BIGINT") == {"sums": "changes"}
    refused = expect_error(con, "ALTER TABLE t DROP COLUMN v", "COLUMNS_IN_USE")
    assert refused.detail == 'Materialized view sums: Column "v" does not exist.'
    assert con.now() == before
    con.execute("DROP MATERIALIZED VIEW sums PURGE")
    made = con.execute("ALTER TABLE t DROP COLUMN v")
    assert made.status == "ALTER TABLE"
    assert "column mapping" in made.notices[0]
    check_rows(other, "SELECT * FROM t", (1, "a"), (2, "b"))
    check_rows(other, "SELECT * FROM counts", (1, 1), (2, 1))
    other.execute("INSERT INTO t VALUES (2, 'c')")
    check_rows(con, "SELECT * FROM counts", (1, 1), (2, 2))
    shown = "\n".join(line for (line,) in con.execute("EXPLAIN ANALYZE counts").fetchall())
    assert "SCHEMA_CHANGED" not in shown, shown
    assert "inserted 1 and deleted 1" in shown, shown
    check_rows(con, "SELECT * FROM below", (2,), (3,), (3,))
    expect_error(con, f"SELECT v FROM t AS OF {before}", "UNKNOWN_COLUMN")
    check_rows(con, f"SELECT * FROM t AS OF {before}", (1, "a"), (2, "b"))
    con.execute("ALTER TABLE t ADD COLUMN v STRING; INSERT INTO t VALUES (3, 'd', 'new')")
    check_rows(con, "SELECT * FROM t WHERE v IS NOT NULL", (3, "d", "new"))
    check_rows(con, f"SELECT * FROM t AS OF {before}", (1, "a", 10), (2, "b", 20))  # as it was then
    told = other.execute("SUBSCRIBE TO plain UP TO NOW AS 'r'").fetchall()
    assert_rows([row[1:] for row in told], [(1, 2, "c"), (1, 3, "d")], "told")
    check_rows(con, "VERIFY MATERIALIZED VIEW counts")


def test_a_comment_while_a_column_comes(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that another process adds meanwhile is there, without a comment."""
    con, other = connect(), connect()
    con.execute("CREATE TABLE t AS SELECT 1 AS k")
    change = LogReader.change_catalog
    late = ["ALTER TABLE t ADD COLUMN v INT"]

    def change_catalog(engine: LogReader, make: Callable[[Catalog], Catalog]) -> Catalog:
        if late:
            other.execute(late.pop())
        return change(engine, make)

    monkeypatch.setattr(LogReader, "change_catalog", change_catalog)
    con.execute("COMMENT ON COLUMN t.k IS 'key'")
    assert [c.comment for c in _table(other).columns] == ["key", None]


def _table(con: Connection, name: str = "t") -> Item:
    return next(i for i in engine_of(con).refresh_catalog() if i.name.name == name)


def test_a_name_does_not_come_to_mean_something_else(con: Connection) -> None:
    """Without the column the same text would read another one: it is read, and stays."""
    con.execute(
        "CREATE TABLE t (k INT, x INT); CREATE TABLE u (k INT, x INT, y INT);"
        "INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO u VALUES (1, 9, 0), (7, 2, 0);"
        "CREATE MATERIALIZED VIEW outer_x AS SELECT k FROM t WHERE EXISTS"
        " (SELECT 1 FROM u WHERE x = t.k);"
        "CREATE MATERIALIZED VIEW lateral_x AS SELECT k AS x, x + 1 AS z FROM u;"
        "CREATE VIEW plain AS SELECT * FROM u;"
        "CREATE MATERIALIZED VIEW narrow AS SELECT k FROM plain WHERE k > 0;"
        "CREATE CONTINUAL TASK log (x INT, z INT) ON INPUT u AS"
        " (INSERT INTO log SELECT k AS x, x + 1 AS z FROM u);"
        "CREATE CONTINUAL TASK kept (k INT) ON INPUT t AS (INSERT INTO kept SELECT k FROM t;"
        " DELETE FROM kept WHERE EXISTS (SELECT 1 FROM u WHERE x = kept.k));"
        "CREATE CONTINUAL TASK few (k INT) ON INPUT u WHERE x > 5 AS"
        " (INSERT INTO few SELECT k FROM u)"
    )
    for change in ("DROP COLUMN x", "RENAME COLUMN x TO xx"):
        broken = ("outer_x", "lateral_x", "plain", "narrow", "log", "kept", "few")
        assert _effects(con, "u", change) == dict.fromkeys(broken, "breaks")
    expect_error(con, "ALTER TABLE u DROP COLUMN x", "COLUMNS_IN_USE")
    check_rows(con, "SELECT * FROM lateral_x", (1, 10), (7, 3))
    assert _effects(con, "u", "DROP COLUMN y") == {"plain": "breaks", "narrow": "breaks"}
    assert _effects(con, "u", "ALTER COLUMN x TYPE BIGINT")["lateral_x"] == "changes"


def test_values_and_types(con: Connection) -> None:
    """NOT NULL is looked at, types widen, defaults fill; outputs and transactions are refused."""
    con.execute(f"{FEW} INSERT INTO t VALUES (NULL, 1, 'n')")
    refused = expect_error(con, "ALTER TABLE t ALTER k SET NOT NULL", "NOT_SUPPORTED")
    assert "holds NULL" in refused.message
    con.execute("DELETE FROM t WHERE k IS NULL; ALTER TABLE t ALTER k SET NOT NULL")
    assert con.execute("ALTER TABLE t ALTER k SET NOT NULL").status == "ALTER TABLE (unchanged)"
    with pytest.raises(CtsqlError, match="NULL"):
        con.execute("INSERT INTO t VALUES (NULL, 1, 'n')")
    con.execute("ALTER TABLE t ALTER k DROP NOT NULL; INSERT INTO t VALUES (NULL, 1, 'n')")
    con.execute("ALTER TABLE t ALTER v TYPE BIGINT; INSERT INTO t VALUES (5, 50, 'e')")
    check_rows(con, "SELECT v FROM sums WHERE k = 5", (50,))
    con.execute("INSERT INTO t VALUES (6, 3000000000, 'f')")
    expect_error(con, "SELECT * FROM sums", "VIEW_FAILED")
    con.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT k, max(v) AS v FROM t GROUP BY k"
    )
    check_rows(con, "SELECT v FROM sums WHERE k = 6", (3000000000,))
    con.execute("ALTER TABLE t ALTER w SET DEFAULT 'dflt'; INSERT INTO t (k, v) VALUES (7, 7)")
    check_rows(con, "SELECT w FROM t WHERE k = 7", ("dflt",))
    con.execute("ALTER TABLE t ALTER w DROP DEFAULT; INSERT INTO t (k, v) VALUES (8, 8)")
    check_rows(con, "SELECT w FROM t WHERE k = 8", (None,))
    expect_error(con, "ALTER TABLE keys ADD COLUMN z INT", "OUTPUT_OWNED")
    con.execute("COMMENT ON COLUMN t.k IS 'key'; ALTER TABLE t ADD COLUMN x INT")
    con.execute("ALTER TABLE t RENAME COLUMN x TO `the x`")
    assert con.execute("DESCRIBE t").fetchall()[0] == ("k", "int", "", "key")
    ((_, shown),) = con.execute("SHOW CREATE t").fetchall()
    assert shown.endswith("the_x int);\nALTER TABLE t RENAME COLUMN the_x TO `the x`")
    (text,) = [t for name, t in dump(engine_of(con)) if name == "default.t"]
    text = text.replace("default.t", "again.t").replace("TABLE t", "TABLE again.t")
    con.execute(f"CREATE SCHEMA again; {text}")
    assert_rows(
        con.execute("DESCRIBE again.t").fetchall(), con.execute("DESCRIBE t").fetchall(), "again"
    )
    con.execute("BEGIN; INSERT INTO t VALUES (9, 9, 'g', 1)")
    expect_error(con, "ALTER TABLE t ADD COLUMN z INT", "TRANSACTION_OPEN")
    con.execute("ROLLBACK")


def test_what_delta_refuses_turns_nothing_on(con: Connection) -> None:
    """Column mapping and defaults stay for good, so they come only with the change itself."""
    con.execute(
        "CREATE TABLE p (a INT, b INT, d DATE) PARTITIONED BY (b);"
        "INSERT INTO p VALUES (1, 2, NULL);"
        "CREATE TABLE c (a INT, b INT) CLUSTER BY (a)"
    )
    before = {n: _properties(con, n) for n in ("p", "c")}
    for change in ("p DROP COLUMN b", "c DROP COLUMN a", "p ALTER a SET DEFAULT 'x'"):
        with pytest.raises(CtsqlError):
            con.execute(f"ALTER TABLE {change}")
    assert {n: _properties(con, n) for n in ("p", "c")} == before
    assert con.execute("ALTER TABLE p ALTER a SET DEFAULT 7").notices
    assert con.execute("ALTER TABLE p ALTER a SET DEFAULT 8").notices == []
    made = con.execute("ALTER TABLE p ALTER d TYPE TIMESTAMP_NTZ")
    assert len(made.notices) == 2
    assert con.execute("ALTER TABLE p ADD COLUMN n TIMESTAMP_NTZ").notices == []
    con.execute("INSERT INTO p (b, n) VALUES (3, TIMESTAMP_NTZ '2026-01-01 00:00:00')")
    check_rows(con, "SELECT a, b FROM p", (1, 2), (8, 3))


def test_a_dump_has_the_columns_that_other_writers_made(con: Connection) -> None:
    """Whether ALTER TABLE was typed before or after them."""
    con.execute("CREATE TABLE t (k INT, w STRING); INSERT INTO t VALUES (1, 'a')")
    item = next(i for i in engine_of(con).catalog if i.name.name == "t")
    con.spark.sql(f"ALTER TABLE delta.`{item.location}` ADD COLUMN z INT")
    con.execute("ALTER TABLE t ADD COLUMN y INT; ALTER TABLE t RENAME COLUMN w TO v")
    con.spark.sql(f"ALTER TABLE delta.`{item.location}` DROP COLUMN y")
    text = dict(dump(engine_of(con)))["default.t"]
    assert text == "USE default;\nCREATE TABLE t (k int, v string, z int);\n"


def test_comments_stay_with_their_columns(con: Connection) -> None:
    """Other writers rename, drop and add columns with comments: a dump has them, and runs."""
    con.execute(
        "CREATE TABLE t (k INT COMMENT 'key', v STRING, w DATE);"
        "COMMENT ON COLUMN t.k IS NULL; COMMENT ON COLUMN t.v IS 'the v';"
        "COMMENT ON COLUMN t.w IS 'the w'"
    )
    item = next(i for i in engine_of(con).catalog if i.name.name == "t")
    place = f"delta.`{item.location}`"
    con.spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    con.spark.sql(f"ALTER TABLE {place} RENAME COLUMN v TO x")
    con.spark.sql(f"ALTER TABLE {place} DROP COLUMN w")
    con.spark.sql(f"ALTER TABLE {place} ADD COLUMN z DOUBLE")
    for sql in ("SELECT 1", "COMMENT ON COLUMN t.z IS 'the z'", "ALTER TABLE t ADD COLUMN y INT"):
        con.execute(sql)
        shown = {name: comment for name, _, _, comment in con.execute("DESCRIBE t").fetchall()}
        assert (shown["k"], shown["x"]) == (None, "the v")
        text = dict(dump(engine_of(con)))["default.t"].replace("default.t", "again.t")
        con.execute("CREATE SCHEMA again")
        con.execute(text.replace("TABLE t", "TABLE again.t"))
        described = con.execute("DESCRIBE again.t").fetchall()
        assert_rows(described, con.execute("DESCRIBE t").fetchall(), sql)
        con.execute("USE default; DROP SCHEMA again CASCADE")
    assert shown["z"] == "the z"


def test_a_dump_has_the_defaults_that_no_statement_says(
    connect: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer gave a column one or took it, or ALTER TABLE ended before the catalog."""

    class End(Exception):
        pass

    def end(point: str) -> None:
        if point == "source_committed":
            raise End

    con = connect()
    con.execute("CREATE TABLE t (k INT, v INT DEFAULT 1, w STRING)")
    with monkeypatch.context() as patch:
        patch.setattr(alter_table.faults, "point", end)
        with pytest.raises(End):
            con.execute("ALTER TABLE t ALTER w SET DEFAULT 'a'")
    con = connect()
    text = dict(dump(engine_of(con)))["default.t"]
    assert text == "USE default;\nCREATE TABLE t (k int, v int DEFAULT 1, w string DEFAULT 'a');\n"
    item = next(i for i in engine_of(con).catalog if i.name.name == "t")
    con.spark.sql(f"ALTER TABLE delta.`{item.location}` ALTER COLUMN v DROP DEFAULT")
    con.execute("ALTER TABLE t RENAME COLUMN w TO x")
    text = dict(dump(engine_of(con)))["default.t"]
    assert text == "USE default;\nCREATE TABLE t (k int, v int, x string DEFAULT 'a');\n"


def _properties(con: Connection, name: str) -> object:
    item = next(i for i in engine_of(con).catalog if i.name.name == name)
    table = engine_of(con).relations.table(item)
    return table.version(), table.configuration()


def test_another_connection_is_in_a_transaction(connect: Callable[[], Connection]) -> None:
    """It has the old columns in mind: its COMMIT is told; a read-only one shows, and refuses."""
    con, other = connect(), connect()
    con.execute(FEW)
    other.execute("BEGIN; INSERT INTO t VALUES (9, 9, 'g')")
    con.execute("ALTER TABLE t ADD COLUMN z INT")
    expect_error(other, "COMMIT", "TRANSACTION_CONFLICT")
    with open_connection(con.warehouse, read_only=True) as reading:
        assert "keys" not in _effects(reading, "t", "DROP COLUMN z")
        expect_error(reading, "ALTER TABLE t DROP COLUMN z", "READ_ONLY_MODE")


@pytest.mark.slow
def test_killed_in_the_middle(warehouse: Path, connect: Callable[[], Connection]) -> None:
    """What Delta needs is turned on, the column is there; the statement is run again."""
    con = connect()
    con.execute(SET_UP)
    change = "ALTER TABLE t RENAME COLUMN v TO u"
    con.execute("DROP MATERIALIZED VIEW sums PURGE")
    run_killed(warehouse, [change], "table_prepared")
    con.execute("INSERT INTO t VALUES (3, 30, 'c')")
    check_rows(con, "SELECT k, v FROM t", (1, 10), (2, 20), (3, 30))
    assert con.execute(change).notices == []
    check_rows(connect(), "SELECT k, u FROM t", (1, 10), (2, 20), (3, 30))
    check_rows(con, "SELECT * FROM counts", (1, 1), (2, 1), (3, 1))
    check_rows(con, "SELECT * FROM below", (2,), (3,), (4,))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_histories_equal_a_model(seed: int, connect: Callable[[], Connection]) -> None:
    """Rows and changes of columns in any order: the table, as of every T, and its readers."""
    rng = random.Random(seed)
    con, other = connect(), connect()
    con.execute(
        "CREATE TABLE t (k INT, c0 INT);"
        "CREATE MATERIALIZED VIEW m AS SELECT k, count(*) AS n FROM t GROUP BY k;"
        "CREATE CONTINUAL TASK log ON INPUT t AS (INSERT INTO log SELECT k FROM t)"
    )
    columns: list[str] = ["c0"]
    rows: list[dict[str, int | None]] = []
    inserted: list[int] = []
    past: list[tuple[int, list[dict[str, int | None]]]] = []
    for turn in range(14):
        by = rng.choice((con, other))
        act = rng.choice(("insert", "insert", "add", "drop", "rename", "delete"))
        if act == "add":
            columns.append(f"c{turn}")
            by.execute(f"ALTER TABLE t ADD COLUMN c{turn} INT")
        elif act == "drop" and columns:
            gone = columns.pop(rng.randrange(len(columns)))
            by.execute(f"ALTER TABLE t DROP COLUMN {gone}")
        elif act == "rename" and columns:
            place = rng.randrange(len(columns))
            old, columns[place] = columns[place], f"r{turn}"
            by.execute(f"ALTER TABLE t RENAME COLUMN {old} TO r{turn}")
            for row in rows:
                row[f"r{turn}"] = row.pop(old, None)
        elif act == "delete" and rows:
            k = rng.choice(rows)["k"]
            rows = [r for r in rows if r["k"] != k]
            by.execute(f"DELETE FROM t WHERE k = {k}")
        else:
            row = {"k": rng.randrange(4), **{c: rng.randrange(9) for c in columns}}
            rows.append(row)
            inserted.append(int(row["k"]))
            by.execute(f"INSERT INTO t VALUES ({', '.join(str(v) for v in row.values())})")
        rows = [{c: r.get(c) for c in ("k", *columns)} for r in rows]
        wanted = [tuple(r.values()) for r in rows]
        check_rows(con, "SELECT * FROM t", *wanted)
        past.append((con.now(), [dict(r) for r in rows]))
    keys = [r["k"] for r in rows]
    check_rows(other, "SELECT * FROM m", *((k, keys.count(k)) for k in set(keys)))
    check_rows(other, "SELECT * FROM log", *((k,) for k in inserted))
    for t, then in past:
        check_rows(con, f"SELECT k FROM t AS OF {t}", *((r["k"],) for r in then))
