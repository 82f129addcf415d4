"""Files that come into tables with constraints that only ctsql keeps."""

from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from tests.helpers.table_folder import folder, versions

pytestmark = pytest.mark.spark


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders for files, in the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "groups").mkdir()
    return tmp_path / "in"


def _rows(con: Connection, sql: str) -> list[tuple[Any, ...]]:
    return sorted(con.execute(sql).fetchall(), key=repr)


def test_rows_of_files_are_looked_at(con: Connection, inbox: Path) -> None:
    """Each fate, in one commit for all that came; what is referred to comes in first."""
    (inbox.parent / "groups" / "1.csv").write_text("id\n1\n")
    (inbox / "1.csv").write_text("k,g,v\n1,1,1\n2,1,\n3,9,3\n")
    con.execute("CREATE TABLE groups (id INT) FROM FILES 'groups/*.csv'")
    con.execute("""
        CREATE TABLE t (
            k INT UNIQUE ON VIOLATION DROP,
            g INT REFERENCES groups (id) ON VIOLATION QUARANTINE,
            v INT DEFAULT 7 NOT NULL ON VIOLATION WARN
        ) FROM FILES 'in/*.csv'
    """)
    con.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    assert _rows(con, "SELECT * FROM t") == [(1, 1, 1), (2, 1, None)]
    before = len(versions(folder(con, "t")))
    (inbox / "2.csv").write_text("k,g,v\n1,1,5\n4,2,4\n")
    (inbox / "3.csv").write_text("k,g,v\n4,1,6\n5,1,5\n")
    (inbox.parent / "groups" / "2.csv").write_text("id\n2\n")
    assert _rows(con, "SELECT * FROM n") == [(4,)]
    assert len(versions(folder(con, "t"))) == before + 1
    assert _rows(con, "SELECT * FROM t") == [(1, 1, 1), (2, 1, None), (4, 1, 6), (5, 1, 5)]
    away = "SELECT constraint_name, row_json FROM t_quarantine"
    assert _rows(con, away) == [("g_references", '{"k":3,"g":9,"v":3}')]
    (inbox / "4.csv").write_text("k,g,v\n8,8,8\n")
    assert len(_rows(con, "SELECT * FROM t")) == 4
    assert len(_rows(con, away)) == 2
    counted = {r[2]: r[5] for r in con.execute("SHOW CONSTRAINTS FOR t").fetchall()}
    assert counted == {"k_unique": 2, "g_references": 2, "v_not_null": 1}
    con.execute("INSERT INTO t VALUES (1, 1, 1), (9, 1, 1)")
    assert len(_rows(con, "SELECT * FROM t")) == 5


def test_files_that_are_refused(con: Connection, inbox: Path) -> None:
    """FAIL keeps an entry waiting until its file is gone; the statement that makes it, nothing."""
    (inbox / "1.csv").write_text("k\n1\n1\n")
    with pytest.raises(CtsqlError, match="CONSTRAINT_VIOLATED"):
        con.execute("CREATE TABLE t (k INT UNIQUE) FROM FILES 'in/*.csv'")
    with pytest.raises(CtsqlError, match="UNKNOWN_RELATION"):
        con.execute("SELECT * FROM t")
    (inbox / "1.csv").write_text("k\n1\n")
    con.execute("CREATE TABLE t (k INT) FROM FILES 'in/*.csv'")
    con.execute("ALTER TABLE t ADD CONSTRAINT one UNIQUE (k)")
    (inbox / "2.csv").write_text("k\n2\n1\n")
    for _ in range(2):
        with pytest.raises(CtsqlError, match='constraint "one" is broken by 1 row'):
            con.execute("SELECT * FROM t")
    (inbox / "2.csv").unlink()
    (inbox / "3.csv").write_text("k\n3\n")
    assert _rows(con, "SELECT * FROM t") == [(1,), (3,)]
    con.execute("ALTER TABLE t DROP CONSTRAINT one")
    (inbox / "4.csv").write_text("k\n1\n")
    assert _rows(con, "SELECT * FROM t") == [(1,), (1,), (3,)]


def test_tables_that_refer_to_each_other(con: Connection, inbox: Path) -> None:
    """The files of each come in once, whichever is read first."""
    (inbox.parent / "groups" / "1.csv").write_text("id,k\n1,1\n")
    (inbox / "1.csv").write_text("k,g\n1,1\n")
    con.execute("CREATE TABLE groups (id INT, k INT) FROM FILES 'groups/*.csv'")
    con.execute("CREATE TABLE t (k INT, g INT REFERENCES groups (id)) FROM FILES 'in/*.csv'")
    con.execute("ALTER TABLE groups ADD FOREIGN KEY (k) REFERENCES t (k)")
    (inbox.parent / "groups" / "2.csv").write_text("id,k\n2,2\n")
    (inbox / "2.csv").write_text("k,g\n2,1\n")
    assert _rows(con, "SELECT * FROM groups") == [(1, 1), (2, 2)]
    assert _rows(con, "SELECT * FROM t") == [(1, 1), (2, 1)]
