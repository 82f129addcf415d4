"""Constraints of a table as its properties have them."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source
from ctsql.planner.nodes import Constraint, NormalReference
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.ast import ConstraintDef, OnViolation
from ctsql.planner.syntax.statements.constraints import constraint_of
from ctsql.runtime.log.table_metadata import keeps_any
from ctsql.runtime.statements.stored_constraints import (
    constraint_changes,
    kept_constraints,
    property_of,
    stored_constraints,
    unsaid_constraints,
)
from ctsql.runtime.statements.transaction import in_order

KEPT = [
    "CONSTRAINT u UNIQUE (a, `b c`) ON VIOLATION DROP",
    "CONSTRAINT `R x` FOREIGN KEY (a) REFERENCES other (id) ON VIOLATION FAIL",
    "CONSTRAINT c CHECK (a > 0 -- a remark\n) ON VIOLATION WARN",
    "CONSTRAINT n NOT NULL (a) ON VIOLATION QUARANTINE",
]


def _stored(*texts: str) -> dict[str, str]:
    made: dict[str, str] = {"other": "1"}
    for text in texts:
        one = constraint_of(text)
        refers = None if one.references is None else ("id of other", "default.other")
        key, value = property_of(one, made, refers)
        made[key] = value
    return made


@pytest.mark.parametrize("text", KEPT)
def test_a_property_gives_the_constraint_again(text: str) -> None:
    """Name, rule, fate and what is referred to are those that were typed."""
    typed = constraint_of(text)
    (found,) = kept_constraints(_stored(text))
    assert found.definition is not None
    for attribute in ("name", "columns", "keys", "unique", "action"):
        assert getattr(found.definition, attribute) == getattr(typed, attribute)
    assert found.refers == (None if typed.references is None else "id of other")
    again = constraint_of(found.text)
    assert (again.name, again.rule, again.action) == (typed.name, found.rule, typed.action)


def test_they_are_in_the_order_in_which_they_were_made() -> None:
    """Beside those of Delta; what is referred to has the name that it has now."""
    properties = {**_stored(*KEPT), "delta.constraints.d": "(v > 0) IS NOT FALSE"}
    found = list(stored_constraints(properties, {"id of other": "s.renamed"}.get))
    assert [one.name for one in found] == ["d", "u", "R x", "c", "n"]
    assert found[2].rule == "FOREIGN KEY (a) REFERENCES s.renamed (id)"
    assert keeps_any(properties)
    assert not keeps_any({"delta.constraints.d": "v > 0"})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"number": "x"}'])
def test_a_damaged_property_is_named(text: str) -> None:
    """It says which, and what to do."""
    with pytest.raises(CtsqlError, match="STORED_DATA_INVALID") as caught:
        kept_constraints({"ctsql.constraints.u": text})
    assert "ctsql.constraints.u" in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "changes"),
    [
        ([], []),
        (KEPT, []),
        ([*reversed(KEPT)], []),
        ([text.lower() for text in KEPT], []),
        (KEPT[1:], ["DROP u"]),
        ([KEPT[0].replace("DROP", "FAIL"), *KEPT[1:]], ["DROP u", "ADD u"]),
        ([KEPT[0].replace("(a, ", "("), *KEPT[1:]], ["DROP u", "ADD u"]),
        ([KEPT[0], KEPT[1].replace("other", "another"), *KEPT[2:]], ["DROP R x", "ADD R x"]),
        ([*KEPT[:2], KEPT[2].replace("0", "1"), KEPT[3]], ["DROP c", "ADD c"]),
        ([*KEPT, "CONSTRAINT d CHECK (b > 0)"], ["ADD d"]),
        ([KEPT[0].replace("CONSTRAINT u", "CONSTRAINT v"), *KEPT[1:]], ["DROP u", "ADD v"]),
    ],
)
def test_what_a_folder_says_otherwise(texts: list[str], changes: list[str]) -> None:
    """By meaning: the order, the case and how it is written say nothing; no word says all."""
    made = [constraint_of(text) for text in texts]

    def id_of(ref: object) -> str | None:
        return "id of other" if "other" in str(ref) and "another" not in str(ref) else None

    found = constraint_changes(made, _stored(*KEPT), id_of)
    dropped = [f"DROP {c.removeprefix('DROP CONSTRAINT ')}" for c in found if c[0] == "D"]
    added = [c.removeprefix("ADD ") for c in found if c[0] == "A"]
    assert [c.replace("`", "") for c in dropped] + [
        f"ADD {constraint_of(c).name}" for c in added
    ] == changes


def test_constraints_of_delta_are_compared_too() -> None:
    """Delta keeps a condition in words of its own."""
    stored = {"delta.constraints.d": "( b > 0 ) IS NOT FALSE"}
    changes = [
        constraint_changes([constraint_of(f"CONSTRAINT D CHECK ({rule})")], stored, lambda _: None)
        for rule in ("b > 0", "b > 1")
    ]
    assert changes == [[], ["DROP CONSTRAINT d", "ADD CONSTRAINT D CHECK (b > 1)"]]


@pytest.mark.parametrize(
    ("changes", "unsaid"),
    [
        (["CREATE TABLE t (b INT)"], ["ADD d"]),
        (["CREATE TABLE t (b INT, CONSTRAINT D CHECK (b > 0))"], []),
        (["CREATE TABLE t (b INT)", "ALTER TABLE t ADD CONSTRAINT D CHECK (b > 0)"], []),
        (
            [
                "CREATE TABLE t (b INT, CONSTRAINT d CHECK (b > 0))",
                "ALTER TABLE t ADD COLUMN c INT",
                "ALTER TABLE t DROP CONSTRAINT D",
            ],
            ["ADD d"],
        ),
        (["CREATE TABLE t (b INT UNIQUE)"], ["DROP b_unique", "ADD d"]),
    ],
)
def test_what_other_writers_changed(changes: list[str], unsaid: list[str]) -> None:
    """What is there and no statement made, and what is there no more."""
    statements = [parse(Source(text, "<test>").whole()) for text in changes]
    found = unsaid_constraints(statements, {"delta.constraints.d": "( b > 0 ) IS NOT FALSE"})
    wanted = {
        "ADD d": "ADD CONSTRAINT d CHECK (b > 0)",
        "DROP b_unique": "DROP CONSTRAINT b_unique",
    }
    assert found == [wanted[one] for one in unsaid]


@pytest.mark.parametrize(
    ("text", "is_of_delta"),
    [
        ("CHECK (a > 0)", True),
        ("NOT NULL (a)", True),
        ("CHECK (a > 0) ON VIOLATION WARN", False),
        ("UNIQUE (a)", False),
        ("FOREIGN KEY (a) REFERENCES t (b)", False),
    ],
)
def test_who_keeps_a_constraint(text: str, is_of_delta: bool) -> None:
    """Every writer keeps what Delta has, and what refuses."""
    made: ConstraintDef = constraint_of(text)
    assert made.is_of_delta is is_of_delta
    assert is_of_delta <= (made.action is OnViolation.FAIL)


def _refers(*ids: str) -> list[Constraint]:
    return [
        Constraint(
            object_id="",
            name="r",
            action=OnViolation.FAIL,
            rule="",
            key=("k",),
            keys=("k",),
            references=NormalReference(object_id=one, name=Name("default", one), columns=()),
        )
        for one in ids
    ]


@pytest.mark.parametrize(
    ("refers", "order"),
    [
        ({}, ""),
        ({"a": "b", "b": "c", "c": ""}, "cba"),
        ({"c": "", "b": "c", "a": "bc"}, "cba"),
        ({"a": "x", "b": ""}, "ab"),
        ({"a": "a", "b": "a"}, "ab"),
        ({"a": "b", "b": "a"}, "ba"),
    ],
)
def test_what_is_referred_to_is_looked_at_first(refers: dict[str, str], order: str) -> None:
    """As far as it is no circle; what the transaction does not write says nothing."""
    assert "".join(in_order({k: _refers(*others) for k, others in refers.items()})) == order
