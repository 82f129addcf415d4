"""Commits that came in between: Delta decides which are conflicts, and no row is lost."""

from collections.abc import Callable
from typing import Any

import pytest

from ctsql import Connection
from ctsql.catalog.errors import Declined
from ctsql.catalog.names import table_at
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.delta.transaction import OptimisticTransaction, whole_file
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.log.batches import StagedFile
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.rows.row_set import LocalRows, row_set
from tests.helpers.opened import table_of


@pytest.fixture
def table(con: Connection) -> DeltaTable:
    """Four files, with the rows 0 to 3."""
    con.execute("CREATE TABLE a (k INT)")
    made = table_of(con, "a")
    rows = "SELECT CAST(id AS INT) FROM range(0, 4, 1, 4)"
    con.spark.sql(f"INSERT INTO {table_at(made.location)} {rows}")
    assert len(_files(made)) == 4
    return made


def test_an_append_goes_on_over_a_compaction(table: DeltaTable) -> None:
    """With what it says of application ids."""
    txn = table.begin()
    txn.add_files([_stage(txn, 9)])
    txn.read_application("app")
    txn.set_application("app", 5, 0)
    version = _compact(table, _files(table))
    assert _commit(txn) == version + 1
    assert _rows(table) == [0, 1, 2, 3, 9]
    assert table.commit_at(version + 1).transactions == (("app", 5),)


def test_a_delete_that_meets_a_compaction(table: DeltaTable) -> None:
    """It is a conflict, of its own file and of others; the next one goes through."""
    for of_its_own in (True, False):
        mine, *others = _files(table)
        txn = table.begin()
        txn.delete([whole_file(mine)])
        _compact(table, [mine] if of_its_own else others[:2])
        with pytest.raises(Conflict):
            _commit(txn)
        assert _rows(table) == [0, 1, 2, 3]
    mine, *_ = _files(table)
    txn = table.begin()
    txn.delete([whole_file(mine)])
    _commit(txn)
    assert len(_rows(table)) == 4 - (mine.rows_count or 0)


def test_a_compaction_goes_on_over_what_leaves_its_files_alone(table: DeltaTable) -> None:
    """Rows that come, and rows that go elsewhere; not over a file of its own with rows deleted."""
    mine = _files(table)[:2]
    txn = table.begin()
    txn.rewrite(mine, _local(table, mine))
    other = table.begin()
    other.delete([whole_file(_files(table)[3])])
    other.add_files([_stage(other, 9)])
    other.set_application("app", 5, 0)
    version = _commit(other)
    assert txn.commit_rewrites() == version + 1
    assert len(_rows(table)) == 4
    late = table.begin()
    late.rewrite(_files(table), _local(table, _files(table)))
    first = table.begin()
    first.delete([whole_file(_files(table)[0])])
    _commit(first)
    rows = _rows(table)
    with pytest.raises(Conflict):
        late.commit_rewrites()
    assert _rows(table) == rows


def _append(table: DeltaTable) -> None:
    txn = table.begin()
    txn.add_files([_stage(txn, 7)])
    _commit(txn)


def _move_application(table: DeltaTable) -> None:
    txn = table.begin()
    txn.set_application("app", 5, 0)
    _commit(txn)


def _compact_and_append(table: DeltaTable) -> None:
    _compact(table, _files(table))
    _append(table)


def _set_property(table: DeltaTable) -> None:
    text = f"ALTER TABLE {table_at(table.location)} SET TBLPROPERTIES ('a' = 'b')"
    table.gateway.session.sql(text)


@pytest.mark.parametrize(
    ("meanwhile", "rows"),
    [
        (_append, [0, 1, 2, 3, 7, 9]),
        (_compact_and_append, [0, 1, 2, 3, 7, 9]),
        (_move_application, None),
        (_set_property, None),
    ],
)
def test_rows_of_others_pass_and_properties_do_not(
    table: DeltaTable, meanwhile: Callable[[DeltaTable], None], rows: list[int] | None
) -> None:
    """Rows of others, the same application, and other properties."""
    txn = table.begin()
    txn.read_application("app")
    txn.add_files([_stage(txn, 9)])
    meanwhile(table)
    if rows is None:
        with pytest.raises(Conflict):
            _commit(txn)
    else:
        _commit(txn)
        assert _rows(table) == rows


def test_the_counts_of_a_statement_go_with_it(con: Connection, table: DeltaTable) -> None:
    """As DESCRIBE HISTORY tells them."""
    txn = table.begin()
    txn.add_files([_stage(txn, 9)])
    version = _compact(table, _files(table))
    assert txn.commit_statement(table.gateway.append_operation(), {"numOutputRows": 1}) > version
    history = con.spark.sql(f"DESCRIBE HISTORY delta.`{table.location}` LIMIT 1").collect()
    assert history[0].operationMetrics["numOutputRows"] == "1"


def test_what_rests_on_all_rows_loses_none(table: DeltaTable) -> None:
    """Whether Delta takes the compaction for a conflict or not."""
    txn = table.begin()
    txn.depend_on_all()
    txn.add_files([_stage(txn, 9)])
    _compact(table, _files(table))
    try:
        _commit(txn)
    except Conflict:
        assert _rows(table) == [0, 1, 2, 3]
    else:
        assert _rows(table) == [0, 1, 2, 3, 9]


def _stage(txn: OptimisticTransaction, k: int) -> Any:
    frame = txn.table.gateway.session.createDataFrame([(k,)], "k INT")
    local = row_set(frame).collect()
    assert isinstance(local, LocalRows)
    file = txn.stage_local(local)
    assert isinstance(file, StagedFile)
    return file


def _commit(txn: OptimisticTransaction) -> int:
    return txn.commit(label="test", epoch=0, metadata="{}")


def _files(table: DeltaTable) -> list[DataFile]:
    return list(table.files(table.version()).values())


def _local(table: DeltaTable, files: list[DataFile]) -> LocalRows:
    local = row_set(table.frame_of(files)).collect()
    assert not isinstance(local, Declined)
    return local


def _compact(table: DeltaTable, files: list[DataFile]) -> int:
    txn = table.begin()
    txn.rewrite(files, _local(table, files))
    return txn.commit_rewrites()


def _rows(table: DeltaTable) -> list[int]:
    return sorted(row.k for row in table.frame(table.version()).collect())
