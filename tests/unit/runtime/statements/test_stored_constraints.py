"""Constraints of a table as its properties have them."""

import pytest

from ctsql.planner.syntax import parse_as
from ctsql.planner.syntax.ast import ChangeConstraints, ConstraintDef
from ctsql.runtime.statements.dml.stored_rules import (
    constraint_changes,
    stored_constraints,
)

STORED = {
    "delta.constraints.c": "( a > 0 ) IS NOT FALSE",
    "delta.constraints.n": "a IS NOT NULL AND b IS NOT NULL",
    "other": "1",
}


def _added(text: str) -> ConstraintDef:
    added = parse_as(ChangeConstraints, f"ALTER TABLE t ADD {text}", "<test>")
    assert added.new_constraint is not None
    return added.new_constraint


def test_what_a_table_has() -> None:
    """Also what another writer has made, with a condition of its own."""
    found = list(stored_constraints({**STORED, "delta.constraints.d": "b in ( 1 , 2 )"}))
    assert [one.text for one in found] == [
        "CONSTRAINT c CHECK (a > 0)",
        "CONSTRAINT d CHECK (b in (1, 2))",
        "CONSTRAINT n CHECK (a IS NOT NULL AND b IS NOT NULL)",
    ]


C, N = "CONSTRAINT c CHECK (a > 0)", "CONSTRAINT n NOT NULL (a, b)"


@pytest.mark.parametrize(
    ("texts", "changes"),
    [
        ([], ["DROP CONSTRAINT c", "DROP CONSTRAINT n"]),
        ([C, N], []),
        ([N, C], []),
        ([C.lower(), N.lower()], []),
        (["CONSTRAINT C CHECK (a>0 -- a remark\n)", N], []),
        ([N], ["DROP CONSTRAINT c"]),
        ([C, "CONSTRAINT n NOT NULL (a)"], ["DROP CONSTRAINT n", "ADD CONSTRAINT n NOT NULL (a)"]),
        (
            ["CONSTRAINT c CHECK (a > 1)", N],
            ["DROP CONSTRAINT c", "ADD CONSTRAINT c CHECK (a > 1)"],
        ),
        ([C, N, "CONSTRAINT d CHECK (b > 0)"], ["ADD CONSTRAINT d CHECK (b > 0)"]),
        (
            ["CONSTRAINT v CHECK (a > 0)", N],
            ["DROP CONSTRAINT c", "ADD CONSTRAINT v CHECK (a > 0)"],
        ),
    ],
)
def test_what_a_folder_says_otherwise(texts: list[str], changes: list[str]) -> None:
    """By the words: the order, the case and blanks change nothing."""
    stored = {key: text.replace("a IS", "`a` IS").replace("b IS", "`b` IS")
              for key, text in STORED.items()}  # fmt: skip
    assert constraint_changes([_added(text) for text in texts], stored) == changes
