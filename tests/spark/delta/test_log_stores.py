"""What this process reads of a log and of a folder on a local disk is what Spark's classes say."""

from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.delta import files
from ctsql.runtime.delta.stores.connector_store import HadoopStore
from ctsql.runtime.delta.stores.locks import local_path
from ctsql.runtime.delta.stores.log_stores import LocalStore
from ctsql.runtime.log.actions import StoredFile
from tests.helpers.hadoop_checksums import write_checksums
from tests.helpers.opened import table_of


def test_a_log_is_the_same_log(con: Connection) -> None:
    """Texts, times, lengths and names; files that are not there; damage by others' checksums."""
    con.execute("CREATE TABLE x (k INT); INSERT INTO x VALUES (1); INSERT INTO x VALUES (2)")
    table = table_of(con, "x")
    folder = local_path(table.location)
    assert folder is not None
    here = LocalStore(folder / "_delta_log")
    files = table.gateway.connector_store(table.location)
    spark = HadoopStore(table.gateway, table.handle, files)
    assert here.uri == spark.uri
    seen = {n for n in here.names() if not n.startswith(".")}
    assert seen == {n for n in spark.names() if not n.startswith(".")}
    commits = sorted(n for n in seen if n.endswith(".json"))
    for store in (here, spark):
        later = {n for n in store.names(1) if n.endswith(".json")}
        assert {*commits[1:]} <= later <= {*commits}
        with store.open(commits[0]) as file:
            assert file.read() == (folder / "_delta_log" / commits[0]).read_bytes()
    for name in [*commits, "nothing.json"]:
        assert here.exists(name) == spark.exists(name)
        assert here.mark(name) == spark.mark(name)
    assert [here.read(n).splitlines() for n in commits] == [
        spark.read(n).splitlines() for n in commits
    ]
    changed = folder / "_delta_log" / commits[-1]
    write_checksums(changed)
    changed.write_text(changed.read_text().replace("commitInfo", "commitinfo"))
    for store in (here, spark):
        with pytest.raises(CtsqlError, match="a file of a table") as raised:
            store.read(commits[-1])
        assert raised.value.condition == "STORED_DATA_INVALID"


def test_a_folder_is_the_same_folder(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of partitions, change data, tables of others, hidden and odd names."""
    con.execute("CREATE TABLE x (k INT, p STRING) PARTITIONED BY (p)")
    con.execute("INSERT INTO x VALUES (1, 'a b'), (2, 'c%d'), (3, NULL)")
    table = table_of(con, "x")
    folder = local_path(table.location)
    assert folder is not None
    hidden = ("_other/b", ".hidden", "t/_delta_log/0.json", "t/c", "metadata/v1.metadata.json")
    for name in ("_change_data/a.parquet", *hidden):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("some text")
    (folder / "lost").symlink_to(folder / "nowhere")

    def by_path(found: list[StoredFile]) -> list[StoredFile]:
        return sorted(found, key=lambda file: file.path)

    mine = by_path(files.stored_files(table))
    with monkeypatch.context() as patch:
        patch.setattr(files, "local_path", lambda _: None)  # by Hadoop
        assert mine == by_path(files.stored_files(table))
    assert "_change_data/a.parquet" in {file.path for file in mine}
    assert len(mine) == 4


class _ListCounter:
    """Delta's handle of a log, which counts how often it lists the log."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.count = 0

    def update(self, *args: Any) -> Any:
        self.count += 1
        return self._log.update(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def test_a_log_is_listed_only_for_what_others_commit(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Own commits, none, and one that another process wrote, also in the place of an own one."""
    con.execute("CREATE TABLE x (k INT); INSERT INTO x VALUES (1); INSERT INTO x VALUES (2)")
    table = table_of(con, "x")
    folder = local_path(table.location)
    assert folder is not None
    listed = _ListCounter(table.handle.log)
    monkeypatch.setitem(vars(table.handle), "log", listed)
    con.execute("INSERT INTO x VALUES (3)")
    con.execute("INSERT INTO x SELECT 4")
    assert con.execute("SELECT k FROM x ORDER BY k").fetchall() == [(1,), (2,), (3,), (4,)]
    assert listed.count == 0
    log = folder / "_delta_log"
    last = table.version()
    lines = (log / f"{last:020d}.json").read_text().splitlines()
    one = next(line for line in lines if line.startswith('{"add"'))
    (log / f"{last + 1:020d}.json").write_text(one.replace('"add"', '"remove"') + "\n")
    assert con.execute("SELECT k FROM x ORDER BY k").fetchall() == [(1,), (2,), (3,)]
    assert (table.version(), listed.count) == (last + 1, 1)
    assert table.begin().version_read == last + 1
