"""What a commit raises when the store fails: an error of ours, and the log is searched for it."""

from types import SimpleNamespace
from typing import Any

import pytest
from delta.exceptions import ConcurrentAppendException
from pyspark.errors import PySparkException

from ctsql.catalog.errors import EnvironmentProblem
from ctsql.runtime.delta.transaction import OptimisticTransaction
from ctsql.runtime.log.protocol import Conflict


def _transaction(problem: Exception) -> OptimisticTransaction:
    """One whose commit Delta answers with an error."""

    def commit(actions: object, operation: object) -> int:
        raise problem

    gateway: Any = SimpleNamespace(seq=list, output_operation=lambda *_: None)
    table: Any = SimpleNamespace(location="s3a://bucket/t", gateway=gateway)
    started = SimpleNamespace(readVersion=lambda: 3, commit=commit)
    return OptimisticTransaction(table, started)


def test_what_the_store_says_of_a_commit_is_an_error_of_ours() -> None:
    """As :class:`ctsql.runtime.log.write_handle.Commits` expects it; else nobody looks for it."""
    txn = _transaction(PySparkException("java.io.IOException: No space left on device"))
    with pytest.raises(EnvironmentProblem, match="STORAGE_ERROR"):
        txn.commit(label="l", epoch=1, metadata="{}")


def test_a_conflict_stays_one() -> None:
    """Then nothing of it is in."""
    txn = _transaction(ConcurrentAppendException("another one was first"))
    with pytest.raises(Conflict):
        txn.commit(label="l", epoch=1, metadata="{}")
