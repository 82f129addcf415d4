"""A table: its change is that in the table's log, consolidated.

VALUES and range() read no table, so they have no change.
"""

from dataclasses import replace

from ctsql.planner.ivm.algebra.nodes import DIFF, Node, Scan, Version
from ctsql.planner.ivm.rules.context import DeltaDerivation

RULE = "the table's own change"


def change_scan(node: Scan, changes: DeltaDerivation) -> Node | None:
    """The change of a table."""
    changes.note(node, RULE)
    return replace(
        node,
        names=(*node.names, DIFF.sql),
        columns=(*node.columns, DIFF),
        version=Version.DELTA,
    )
