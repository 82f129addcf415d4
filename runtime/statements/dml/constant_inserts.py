"""INSERT of rows that stand in the statement's text, or that a Python program hands over.

Spark analyses the statement and folds its values into rows; a job would only carry them through an
executor (a SELECT without FROM takes one all the same). So the driver writes them into one file,
and Delta's own transaction commits it, as an append that no other append conflicts with.

Spark runs the statement wherever that is not certain to be the same: rows of tables, columns that
Delta computes, pads or counts, CHECK constraints, partitions, a NULL that a column does not take.
Then nothing has been written before.
"""

import json
from collections.abc import Mapping
from typing import Any

from ctsql.catalog.declined import Declined
from ctsql.runtime.delta.clones import complete, constants
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.spark.internals.plans import AnalysedInsert

_COMPACTS = "delta.autoOptimize"
"""Begins the table properties that make Spark's own INSERT compact files."""


def append_constants(table: DeltaTable, version: int, statement: AnalysedInsert) -> int | Declined:
    """Append the rows of a statement in one commit; returns their number.

    Declined where Spark is to run it; then the table is as it was.

    Args:
        version: the newest one of the table.
    """
    appended = complete(table, version, statement.rows)
    rows = appended if isinstance(appended, Declined) else constants(appended)
    if isinstance(rows, Declined):
        return rows
    count = int(rows.arrow.num_rows)
    txn = table.begin()
    if not count or _compacts(txn.metadata):
        return Declined("there are no rows, or Delta compacts after them")
    file = txn.stage_local(rows)
    if isinstance(file, Declined):
        return file
    faults.point("statement_staged")
    txn.add_files([file])
    size = json.loads(file.action)["add"]["size"]
    try:
        txn.commit_statement(
            table.gateway.append_operation(),
            {"numFiles": 1, "numOutputRows": count, "numOutputBytes": size},
        )
    except Conflict:
        table.discard([file.path])
        return Declined("the table was changed meanwhile")
    return count


def _compacts(metadata: Mapping[str, Any]) -> bool:
    return any(key.startswith(_COMPACTS) for key in metadata["configuration"])
