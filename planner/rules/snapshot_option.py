"""The inputs of a task with ``SNAPSHOT = true`` are the snapshot on the first run.

    TaskWrite log (snapshot)                    TaskWrite log (snapshot)
      InsertsInput feed                    ->     InsertsInput feed with snapshot

Right, because the contents of the input at the time of creation are, as a change, its inserts
since the beginning of time. Without the option the first run is the first change after creation.
"""

import dataclasses

from ctsql.planner.nodes import ChangesInput, InsertsInput, Node, TaskWrite, map_nodes


def rule(node: Node) -> Node:
    """Apply to a whole plan."""
    if not (isinstance(node, TaskWrite) and node.snapshot):
        return node

    def change(n: Node) -> Node:
        if isinstance(n, InsertsInput | ChangesInput) and not n.with_snapshot:
            return dataclasses.replace(n, with_snapshot=True)
        return n

    return map_nodes(node, change)
