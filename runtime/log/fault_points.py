"""Named points between durable steps, for tests of crashes.

:data:`PROMISES` states for each point what holds after a restart; ``tests/crash/test_faults.py``
kills a process at each and checks it. Only tests fill :data:`hooks`
(``tests/helpers/fault_launcher.py``).
"""

from collections.abc import Callable

PROMISES = {
    "statement_staged": "the files of an INSERT of constants exist, the table does not "
    "name them: it is as it was",
    "source_committed": "an INSERT is in the table and bound to no T: the next mint binds it",
    "transaction_staged": "COMMIT has changed nothing: no statement of the transaction is in",
    "intent_recorded": "the transaction is decided, no table holds it: the next mint commits it",
    "transaction_table_committed": "one table holds its part, the others do not: no T is bound, so "
    "nobody sees any; whoever mints next commits the rest",
    "timeline_committed": "Ts are bound (and what ALTER changes of a task), the outputs catch up",
    "output_staged": "files exist, the upper is unchanged: they are unseen; the T is run again",
    "output_committed": "the output holds T: it is not run again",
    "outputs_halfway": "all outputs of a task hold T but the first: T is read of none of them; "
    "it is run again, and only the first is written",
    "state_committed": "a table beside a view, of its groups or turns, holds T, the view does not: "
    "the view names an older version of it, so T is written again and the table is compared, "
    "made anew, or found to be the same",
    "mv_advanced_upper": "the upper is a batch's lower, its rows are unseen: written again",
    "table_prepared": "ALTER TABLE has turned on what Delta needs for it: no column is changed yet",
    "tables_altered": "the tables of a folder that is applied are as it says, but for columns that "
    "go; its definitions are not in force: who applies it again does the rest",
    "columns_added": "the table of an output has columns of a definition that is not in force: "
    "NULL in all rows, and none of the output's own yet",
    "catalog_table_made": "a folder exists that no object owns: nobody sees it",
    "cutover_stored": "definitions that change together wait in the catalog and are seen by "
    "nobody: who changes the catalog next takes them away",
    "cutover_bound": "definitions that change together are bound to a T and in force, the "
    "catalog does not have them yet: who changes it next writes them",
    "catalog_committed": "the object exists, its first contents are written on first use; "
    "a definition that ALTER adds waits for a T and is seen by nobody",
}
POINTS = tuple(PROMISES)

hooks: list[Callable[[str], object]] = []
"""Called with the name of each point that is reached; empty outside of tests."""


def point(name: str) -> None:
    """Mark a fault point."""
    for hook in hooks:
        hook(name)
