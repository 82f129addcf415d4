"""Writes ``warehouse.tar.gz``: run once by the program at commit 037d757, kept to repeat it.

    git worktree add /tmp/old 037d757 && cd /tmp/old
    PYTHONPATH=. python .../tests/old_warehouses/037d757/write.py EMPTY_FOLDER

The texts of the archive name the folder ``@WAREHOUSE@``: whoever unpacks it puts the real one
there. Hadoop's own checksums of files are left out, because they would not hold then.
"""

import io
import sys
import tarfile
import time
from pathlib import Path

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.times import to_iso

PLACE = b"@WAREHOUSE@"

OBJECTS = """
CREATE TABLE feed (k INT, v INT) COMMENT 'one row a reading';
COMMENT ON COLUMN feed.v IS 'what was read';
INSERT INTO feed VALUES (1, 10), (2, 20), (2, 22);
CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k
);
CREATE CONTINUAL TASK windows (n BIGINT, total BIGINT) ON INPUT feed
    WITH (COALESCE = '10 minutes') AS (INSERT INTO windows SELECT count(*), sum(v) FROM feed);
CREATE CONTINUAL TASK ratios (k INT, r INT) ON INPUT feed AS (
    INSERT INTO ratios SELECT k, 100 DIV v FROM feed
);
CREATE CONTINUAL TASK sort_feed OUTPUTS (low (k INT, v INT), high (k INT, v INT))
    ON INPUT feed AS (
    INSERT INTO low SELECT k, v FROM feed WHERE v < 20;
    INSERT INTO high SELECT k, v FROM feed WHERE v >= 20
);
CREATE MATERIALIZED VIEW averages WITH (REFRESH POLICY = incremental) AS
    SELECT k, avg(v) AS a FROM feed GROUP BY k;
CREATE MATERIALIZED VIEW levels WITH (REFRESH POLICY = incremental) AS
    SELECT CAST(a AS INT) DIV 10 AS level, avg(a) AS a FROM averages
    GROUP BY CAST(a AS INT) DIV 10;
COMMENT ON MATERIALIZED VIEW levels IS 'a view over a view';
CREATE VIEW above AS SELECT k, a FROM averages WHERE a > 15;
CREATE MATERIALIZED VIEW counted WITH (REFRESH AT '{soon}', REFRESH EVERY '10000 days') AS
    SELECT count(*) AS n FROM feed;
"""
CHANGES = ("INSERT INTO feed VALUES (1, 14), (3, 30)", "UPDATE feed SET v = 24 WHERE v = 22")
FAILS = "INSERT INTO feed VALUES (4, 0)"
UNREAD = ("INSERT INTO feed VALUES (2, 40), (5, 5)", "DELETE FROM feed WHERE k = 3")
OUTPUTS = ("latest", "low", "high", "averages", "levels", "counted")


def main(folder: str) -> None:
    """Make the warehouse, with changes that nobody has read at its end, and pack it."""
    warehouse = Path(folder).resolve()
    con = connect(str(warehouse), master="local[2]")
    soon = int(time.time() * 1000) + 240_000
    con.execute(OBJECTS.format(soon=to_iso(soon)))
    _read(con)
    con.execute("SUBSCRIBE TO averages UP TO NOW AS 'nightly'").fetchall()
    for statement in CHANGES:
        con.execute(statement)
        _read(con)
    con.execute("SELECT * FROM ratios").fetchall()
    con.execute(FAILS)
    _read(con)
    try:
        con.execute("SELECT * FROM ratios").fetchall()
    except CtsqlError as failed:
        if failed.condition != "TASK_FAILED":
            raise
    for statement in UNREAD:
        con.execute(statement)
    for statement in ("STATUS", "SHOW SUBSCRIPTIONS", "SHOW OBJECTS", "EXPLAIN ANALYZE averages"):
        shown = con.status() if statement == "STATUS" else con.execute(statement)
        print(statement, *shown.fetchall(), sep="\n  ")
    con.close()
    assert int(time.time() * 1000) < soon, "the view was to miss its refresh"
    pack(warehouse, Path(__file__).parent / "warehouse.tar.gz")


def _read(con: Connection) -> None:
    for name in OUTPUTS:
        if name != "counted":
            print(name, con.execute(f"SELECT * FROM {name}").fetchall())


def pack(warehouse: Path, archive: Path) -> None:
    """Every file but locks and Hadoop's checksums; the folder's name is taken out of the texts."""
    place = str(warehouse).encode()
    with tarfile.open(archive, "w:gz") as packed:
        for path in sorted(p for p in warehouse.rglob("*") if p.is_file()):
            hadoop = path.name.startswith(".") and path.suffix == ".crc"
            if hadoop or path.suffix == ".lock":
                continue
            held = path.read_bytes()
            if path.suffix in (".json", ".crc"):
                held = held.replace(place, PLACE)
            assert place not in held, f"{path} names the folder and is no text"
            entry = tarfile.TarInfo(str(path.relative_to(warehouse)))
            entry.size, entry.mtime = len(held), int(path.stat().st_mtime)
            packed.addfile(entry, io.BytesIO(held))


if __name__ == "__main__":
    main(sys.argv[1])
