"""The files of a dump make the same objects again."""

from pathlib import Path

import pytest

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.cli.folder_commands import write_dump
from ctsql.planner.syntax import split
from tests.helpers.opened import engine_of
from tests.helpers.sql_folder import applied, planned, statuses

OBJECTS = """
CREATE SCHEMA shop;
CREATE TABLE shop.items (id INT COMMENT 'the id', `odd-name` STRING) COMMENT 'it''s';
USE shop;
CREATE TABLE zz (id INT, v BIGINT);
CREATE CONTINUAL TASK aa (id INT, v BIGINT) ON INPUT zz AS (INSERT INTO aa SELECT * FROM zz);
CREATE MATERIALIZED VIEW a0 AS SELECT i.*, a.v FROM items AS i JOIN aa AS a USING (id);
CREATE VIEW plain AS SELECT * FROM a0;
CREATE CONTINUAL TASK two OUTPUTS (o1 (id INT), o2 (id INT)) ON INPUT zz AS (
    INSERT INTO o1 SELECT id FROM zz; INSERT INTO o2 SELECT id FROM o1);
ALTER TABLE zz RENAME TO `select`;
COMMENT ON TASK OUTPUT o2 IS 'second';
COMMENT ON COLUMN aa.v IS 'how many';
ALTER CONTINUAL TASK two SUSPEND
"""


def _texts(files: list[Path]) -> dict[str, str]:
    return {path.name: path.read_text() for path in files}


def test_a_dump_makes_the_same_again(con: Connection, tmp_path: Path) -> None:
    """Each object after what it reads, with its current names, comments and states."""
    con.execute(OBJECTS)
    first = write_dump(con, tmp_path / "first")
    with connect(str(tmp_path / "other"), spark=con.spark) as other:
        for path in first:
            for span in split(Source(path.read_text(), path.name)):
                other.run_statement(span)
        assert _texts(write_dump(other, tmp_path / "second")) == _texts(first)
        other.execute("INSERT INTO shop.`select` VALUES (1, 2)")
        assert other.execute("SELECT * FROM shop.aa").fetchall() == [(1, 2)]
    with pytest.raises(CtsqlError, match=r"there are .sql files"):
        write_dump(con, tmp_path / "first")


def test_comments_are_those_of_now(con: Connection, tmp_path: Path) -> None:
    """Also where the definition has the same text elsewhere, and where it had one that is gone."""
    con.execute("""
        CREATE TABLE t (k INT COMMENT 'key', v INT, w INT COMMENT 'gone') COMMENT 'gone';
        COMMENT ON COLUMN t.v IS 'key'; COMMENT ON COLUMN t.w IS NULL; COMMENT ON TABLE t IS NULL;
        CREATE VIEW p AS SELECT k FROM t WHERE 'done' > 'a'; COMMENT ON VIEW p IS 'done';
        CREATE MATERIALIZED VIEW m (k COMMENT 'key', v COMMENT 'x') AS SELECT k, v FROM t;
        COMMENT ON COLUMN m.k IS 'x'; COMMENT ON COLUMN m.v IS NULL;
        CREATE CONTINUAL TASK c OUTPUTS (o (k INT COMMENT 'key', v INT)) ON INPUT t AS
            (INSERT INTO o SELECT k, v FROM t);
        COMMENT ON COLUMN o.v IS 'key'; COMMENT ON COLUMN o.k IS NULL;
    """)

    wanted = _comments(con)
    assert wanted == {
        "t": [None, "key", "key", None], "p": ["done", None], "m": [None, "x", None],
        "c": [None], "o": [None, None, "key"],
    }  # fmt: skip
    with connect(str(tmp_path / "other"), spark=con.spark) as other:
        for path in write_dump(con, tmp_path / "first"):
            for span in split(Source(path.read_text(), path.name)):
                other.run_statement(span)
        assert _comments(other) == wanted


def _comments(con: Connection) -> dict[str, list[str | None]]:
    """Of each object, then of its columns."""
    catalog = engine_of(con).refresh_catalog()
    return {i.name.name: [i.comment, *(c.comment for c in i.columns)] for i in catalog}


def test_a_view_that_is_altered_keeps_its_comments(con: Connection) -> None:
    """Those of now, not those of its definition."""
    con.execute("""
        CREATE TABLE t (k INT, v INT);
        CREATE MATERIALIZED VIEW m COMMENT 'old' AS SELECT k, v FROM t;
        COMMENT ON MATERIALIZED VIEW m IS 'new'; COMMENT ON COLUMN m.v IS 'x';
        ALTER MATERIALIZED VIEW m SET (REFRESH POLICY = full);
        ALTER MATERIALIZED VIEW m ADD CONSTRAINT few CHECK (v < 10) ON VIOLATION DROP
    """)
    assert _comments(con)["m"] == ["new", None, "x"]
    con.execute("CREATE OR REPLACE MATERIALIZED VIEW m COMMENT 'other' AS SELECT k, v FROM t")
    assert _comments(con)["m"] == ["other", None, "x"]  # what it does not give stays


def test_an_altered_table_is_what_it_is_now(con: Connection, tmp_path: Path) -> None:
    """ALTER TABLE is no definition of a folder, so the dump has the columns and rules of now."""
    con.execute("""
        CREATE TABLE t (k INT NOT NULL, CONSTRAINT small CHECK (k < 10)) COMMENT 'kept';
        ALTER TABLE t ADD COLUMN note STRING;
        ALTER TABLE t ALTER COLUMN note SET DEFAULT 'none';
        ALTER TABLE t DROP CONSTRAINT small;
        ALTER TABLE t ADD CONSTRAINT large CHECK (k > 0);
    """)
    (file,) = write_dump(con, tmp_path / "first")
    text = file.read_text()
    assert "ALTER" not in text
    assert "k int NOT NULL, note string DEFAULT 'none', CONSTRAINT large CHECK (k > 0))" in text
    assert statuses(planned(con, text)) == {"t": "unchanged"}
    with connect(str(tmp_path / "other"), spark=con.spark) as other:
        applied(other, text)
        other.execute("INSERT INTO t (k) VALUES (12)")
        assert other.execute("SELECT * FROM t").fetchall() == [(12, "none")]
        assert write_dump(other, tmp_path / "second")[0].read_text() == text
