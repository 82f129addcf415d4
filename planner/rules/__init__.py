"""The transforms, in order: one function a file, named as its file.

Each also defines the transform on collections of updates (:mod:`ctsql.planner.updates`), which
the runtime calls on handles of commits.
"""

from collections.abc import Callable

from ctsql.planner.nodes import Node
from ctsql.planner.rules import (
    changes_input,
    deletes_input,
    inserts_input,
    normal_reference,
    snapshot_option,
    step_forward,
    times_extract,
    times_reduce,
)

RULES: tuple[Callable[[Node], Node], ...] = (
    inserts_input.rule,  # Get(input) -> InsertsInput
    deletes_input.rule,  # Get(deletes) -> DeletesInput
    changes_input.rule,  # Get(changes) -> ChangesInput
    step_forward.rule,  # Get(self) -> SelfReference
    normal_reference.rule,  # Get(reference) -> NormalReference; no Get is left after it
    snapshot_option.rule,  # marks the inputs below a task with SNAPSHOT
    times_extract.rule,  # needs the task's inputs
    times_reduce.rule,  # needs TimesExtract
)


def transform(node: Node) -> Node:
    """The plan after all rules."""
    for rule in RULES:
        node = rule(node)
    return node
