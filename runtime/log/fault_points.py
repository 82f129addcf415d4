"""Named points between durable steps, for tests of crashes.

:data:`PROMISES` states what holds after a restart at each point; ``tests/crash/test_faults.py``
kills a process there and checks it. Only ``tests/helpers/fault_launcher.py`` fills :data:`hooks`.
"""

from collections.abc import Callable

PROMISES = {
    "statement_staged": "the files of an INSERT of constants exist, the table does not name them",
    "source_committed": "an INSERT is in the table and has no T: the next assignment gives it one",
    "transaction_staged": "COMMIT has changed nothing: no statement of the transaction is visible",
    "intent_recorded": "the transaction is decided, no table holds it: the next T commits it",
    "transaction_table_committed": "one table holds its part, the others do not: no T is assigned, "
    "so nobody sees any; the process that assigns the next T commits the rest",
    "timeline_committed": "Ts (and an ALTER's changes of a task) are committed, outputs catch up",
    "output_staged": "files exist, the upper is unchanged: they are invisible; T is run again",
    "output_committed": "the output holds T: it is not run again",
    "outputs_halfway": "all outputs of a task hold T but the first: T is read of none of them; "
    "it is run again, and only the first is written",
    "state_committed": "a view's auxiliary table holds T, the view does not: the view names an "
    "older version of it, so T is written again and the table is compared or rebuilt",
    "mv_advanced_upper": "the upper is a batch's lower, its rows are invisible: written again",
    "table_prepared": "ALTER TABLE has enabled what Delta needs for it: no column is changed yet",
    "tables_altered": "the tables of an applied folder match it, except for columns to drop; its "
    "definitions are not in force: applying it again does the rest",
    "columns_added": "the table of an output has columns of a definition that is not in force: "
    "NULL in all rows, and none of the output's own yet",
    "catalog_table_made": "a folder exists that no object owns: nobody sees it",
    "cutover_stored": "definitions that change together wait in the catalog, invisible: the next "
    "change of the catalog removes them",
    "cutover_bound": "definitions that change together have a T and are in force, the catalog "
    "does not have them yet: its next change writes them",
    "catalog_committed": "the object exists, its first contents are written on first use; "
    "a definition that ALTER adds waits for a T, invisible",
}

hooks: list[Callable[[str], object]] = []
"""Called with the name of each reached point; empty outside of tests."""


def point(name: str) -> None:
    """Mark a fault point."""
    for hook in hooks:
        hook(name)
