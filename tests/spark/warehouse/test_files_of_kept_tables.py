"""Files that come into tables with constraints that only ctsql keeps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.warehouse import watched_files
from tests.helpers.table_folder import data_files, folder, named_files, versions

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


@pytest.mark.parametrize("moment", ["before its mint", "once it has staged"])
def test_another_process_takes_the_same_files(
    moment: str,
    con: Connection,
    connect: Callable[[], Connection],
    inbox: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are in once where nothing is locked: in one thread no lock keeps the other out."""
    (inbox / "1.csv").write_text("k,v\n1,1\n")
    con.execute("""
        CREATE TABLE t (k INT UNIQUE, v INT CHECK (v > 0) ON VIOLATION QUARANTINE)
            FROM FILES 'in/*.csv'
    """)
    other = connect()
    assert _rows(other, "SELECT * FROM t") == [(1, 1)]
    (inbox / "2.csv").write_text("k,v\n2,2\n3,-3\n4,4\n")
    read, came = watched_files.rows_to_load, list[str]()

    def come(at: str) -> None:
        if at == moment and not came:
            came.append(at)
            assert len(_rows(other, "SELECT * FROM t")) == 3

    def read_after(*given: Any, **named: Any) -> Any:
        come("before its mint")
        return read(*given, **named)

    def point(name: str) -> None:
        come("once it has staged" if name == "transaction_staged" else "")

    monkeypatch.setattr(watched_files, "rows_to_load", read_after)
    monkeypatch.setattr(faults, "hooks", [point])
    assert _rows(con, "SELECT * FROM t") == [(1, 1), (2, 2), (4, 4)]
    assert came
    assert len(_rows(con, "SELECT * FROM t_quarantine")) == 1
    counted = {r[2]: r[5] for r in con.execute("SHOW CONSTRAINTS FOR t").fetchall()}
    assert counted == {"k_unique": 0, "v_check": 1}
    for name in ("t", "t_quarantine"):
        found = folder(con, name)
        assert {f for f in data_files(found) if f.startswith("part-")} <= named_files(found)
