"""Delta's own cleanup of a table's log.

A checkpoint deletes commits that are older than ``delta.logRetentionDuration``, 30 days by default,
whether or not somebody has read them. ctsql switches that off for a table that something follows.

[own-setting] What a user has set is left alone: a property of ctsql's own marks what it has set.

Source: Delta's table properties, "delta.enableExpiredLogCleanup".
"""

from collections.abc import Callable

from ctsql.runtime.delta.log.table_log import TableLog
from ctsql.runtime.delta.transaction import OptimisticTransaction
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.log.table_metadata import is_on
from ctsql.runtime.spark.failures.errors import translate_spark_errors

_CLEANUP = "delta.enableExpiredLogCleanup"
_MARK = "ctsql.keepsLog"
KEEPS_LOG = {_CLEANUP: "false"}
"""Properties of tables that ctsql alone writes."""


def keep_log(table: TableLog, begin: Callable[[], OptimisticTransaction], *, keeps: bool) -> None:
    """Switch the cleanup of a log off; or on again, if ctsql has switched it off [own-setting].

    The commit changes no row, and conflicts only with other changes of the table's properties or
    columns: then it is tried again.

    Args:
        begin: starts a transaction on the table.
    """
    while True:
        properties = table.configuration()
        if is_on(properties, _CLEANUP) is False if keeps else _MARK not in properties:
            return
        transaction = begin()
        _change_properties(transaction, keeps=keeps)
        try:
            transaction.commit(label="ctsql", epoch=0, metadata="{}")
        except Conflict:
            continue


def _change_properties(transaction: OptimisticTransaction, *, keeps: bool) -> None:
    with translate_spark_errors():
        action = transaction.txn.metadata_action()
        others = action["metaData"]["configuration"].items()
        properties = {key: value for key, value in others if key not in (_CLEANUP, _MARK)}
        own = {**KEEPS_LOG, _MARK: "true"} if keeps else {}
        action["metaData"]["configuration"] = {**properties, **own}
        transaction.txn.set_metadata(action)
