"""Tables that files come into: each file once, in one commit for all that came."""

from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.service.events import Event, EventKind
from ctsql.runtime.warehouse import watched_files
from tests.helpers.table_folder import folder, tree, versions

pytestmark = pytest.mark.spark


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for files, in the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def _rows(con: Connection, sql: str = "SELECT * FROM t") -> list[tuple[Any, ...]]:
    return sorted(con.execute(sql).fetchall())


def test_files_come_in_once(con: Connection, inbox: Path) -> None:
    """What is there, then what comes, whatever the names; one commit for all that came."""
    (inbox / "a [1],b.csv").write_text("id,n\n007,10\n")
    (inbox / "_hidden.csv").write_text("id,n\n0,0\n")
    (inbox / "other.txt").write_text("x")
    con.execute("CREATE TABLE t (id STRING, n INT) COMMENT 'c' FROM FILES 'in/*.csv' (HEADER true)")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    assert _rows(con) == [("007", 10)]
    log = folder(con, "t")
    before = len(versions(log))
    assert _rows(con) == [("007", 10)]
    assert len(versions(log)) == before
    (inbox / "ü%20.csv").write_text("n,id\n20,2\n")
    (inbox / "c.csv").write_text("n,id\n30,3\n")
    assert _rows(con, "SELECT * FROM v") == [(3,)]
    assert len(versions(log)) == before + 1
    (inbox / "c.csv").write_text("n,id\n31,3\n")  # a path is looked at once
    con.execute("INSERT INTO t VALUES ('x', 1)")
    assert _rows(con) == [("007", 10), ("2", 20), ("3", 30), ("x", 1)]
    assert [commit.t for commit in con.commits("t")] == sorted({c.t for c in con.commits("t")})
    other = Connection(con.warehouse, spark=con.spark)
    (inbox / "d.csv").write_text("id,n\n4,40\n")
    assert len(_rows(other)) == 5
    assert len(_rows(con)) == 5
    reader = Connection(con.warehouse, spark=con.spark, read_only=True)
    (inbox / "e.csv").write_text("id,n\n5,50\n")
    assert len(_rows(reader)) == 5
    con.execute("DROP TABLE t CASCADE PURGE")
    assert not log.exists()


def test_names_that_look_like_patterns(con: Connection, inbox: Path) -> None:
    """They come in once beside others: Spark's reader takes all paths again for each such name."""
    names = ["a*x", "a\nx", "a?x", "a[b]x", "a{b,c}x", "a}x", "a\\x", "abx", "acx"]
    for k, name in enumerate(names):
        (inbox / f"{name}.csv").write_text(f"id\n{k}\n")
        (inbox / f"{name}.jsonl").write_text(f'{{"id": {k}}}')
    for suffix in ("csv", "jsonl"):
        con.execute(f"CREATE TABLE {suffix} (id INT) FROM FILES 'in/*.{suffix}'")
        assert _rows(con, f"SELECT * FROM {suffix}") == [(k,) for k in range(len(names))]


def test_a_file_that_does_not_fit(con: Connection, inbox: Path) -> None:
    """It is named; what came with it waits until it is mended or gone, and the rest goes on."""
    con.execute("CREATE TABLE t (id INT, n INT) FROM FILES 'in' WITH (FORMAT csv)")
    con.execute("CREATE TABLE beside (k INT)")
    (inbox / "bad.csv").write_text("id,n\n1,x\n")
    (inbox / "good.csv").write_text("id,n\n2,20\n")
    for _ in range(2):
        with pytest.raises(CtsqlError, match=r"bad\.csv") as refused:
            con.execute("SELECT * FROM t")
        assert refused.value.condition == "DATA_ERROR"
    assert _rows(con, "SELECT * FROM beside") == []
    con.execute("SET isolation = 'serializable'")
    assert _rows(con) == []
    con.execute("RESET isolation")
    told: list[Event] = []
    with pytest.raises(CtsqlError, match=r"bad\.csv"):
        con.run(once=True, on_event=told.append)
    assert [e.name for e in told if e.kind is EventKind.FAILED] == ["t"]
    (inbox / "bad.csv").write_text("id,n\n1,10\n")
    assert _rows(con) == [(1, 10), (2, 20)]
    (inbox / "more.csv").write_text("id,n,more\n3,30,x\n")
    with pytest.raises(CtsqlError, match="COLUMN_COUNT_MISMATCH"):
        con.execute("SELECT * FROM t")
    (inbox / "more.csv").unlink()
    assert _rows(con) == [(1, 10), (2, 20)]
    (inbox / "last.csv").write_text("id,n\n4,40\n")
    con.run(once=True, on_event=told.append)
    assert [e.inserted for e in told if e.kind is EventKind.WROTE and e.name == "t"] == [1]
    assert len(_rows(con)) == 3


def test_parquet_and_the_record(
    con: Connection, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types are those of the table; the record of the paths is rewritten when it has many files."""
    monkeypatch.setattr(watched_files, "RECORD_FILES_MAX", 2)
    con.execute("CREATE TABLE t (id BIGINT, s STRUCT<a: INT>) FROM FILES 'in/*.parquet'")
    for i in range(4):
        con.execute(f"COPY (SELECT named_struct('a', {i}) AS s, {i} AS id) TO 'in/{i}.parquet'")
        assert len(_rows(con)) == i + 1
    fresh = Connection(con.warehouse, spark=con.spark)
    assert _rows(fresh, "SELECT id, s.a FROM t") == [(i, i) for i in range(4)]
    con.execute("COPY (SELECT 5L AS id, 'x' AS s) TO 'in/5.parquet'")
    with pytest.raises(CtsqlError, match="TYPE_MISMATCH"):
        con.execute("SELECT * FROM t")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("CREATE TABLE t (id INT) FROM FILES 'nope/*.csv'", "FILE_NOT_FOUND"),
        ("CREATE TABLE t (id INT) FROM FILES 'nope' (FORMAT csv)", "FILE_NOT_FOUND"),
        ("CREATE TABLE t (id INT) FROM FILES 'in'", "FILE_FORMAT_UNKNOWN"),
        ("CREATE TABLE t FROM FILES 'in/*.csv'", "SYNTAX_ERROR"),
        ("CREATE TABLE t (id INT) FROM FILES 'in/*.csv' AS SELECT 1", "NOT_SUPPORTED_YET"),
        ("CREATE TABLE t (id INT) FROM FILES 'in/*.csv' FROM FILES 'in/*.csv'", "SYNTAX_ERROR"),
        ("CREATE TABLE t (id INT) FROM FILES 'in/*.csv' (FORMAT xml)", "INVALID_OPTION"),
        ("CREATE TABLE t (id INT) FROM FILES 'in/*.csv' LOCATION 'x'", "NOT_SUPPORTED_YET"),
        ("CREATE TABLE t (id INT) FROM FILES 'in/*.csv'", "DATA_ERROR"),
    ],
)
def test_refusals(con: Connection, inbox: Path, text: str, condition: str) -> None:
    """Nothing is left of the table."""
    (inbox / "bad.csv").write_text("id\nx\n")
    con.start()
    before = tree(Path(con.warehouse))
    with pytest.raises(CtsqlError) as refused:
        con.execute(text)
    assert refused.value.condition == condition, refused.value
    assert tree(Path(con.warehouse)) == before
