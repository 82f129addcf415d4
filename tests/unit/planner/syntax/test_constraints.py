"""Constraints in column lists: what is read, under which name, and what is refused."""

import pytest

from ctsql.catalog.errors import Error
from ctsql.planner.binding.constraints import without_broken
from ctsql.planner.syntax import splice
from ctsql.planner.syntax.ast import (
    ChangeConstraints,
    CreateContinualTask,
    CreateMaterializedView,
    OnViolation,
    Show,
)
from ctsql.planner.syntax.statements.constraints import CONSTRAINTS_MAX, constraint_text
from tests.helpers.parsed import parsed


def _task(constraints: str) -> CreateContinualTask:
    made = parsed(
        f"CREATE CONTINUAL TASK x ({constraints}) ON INPUT t AS (INSERT INTO x SELECT * FROM t)"
    )
    assert isinstance(made, CreateContinualTask)
    return made


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ("k INT", []),
        ("k INT NOT NULL", []),
        ("k INT NOT NULL ON VIOLATION DROP", ["k_not_null NOT NULL (k) DROP"]),
        ("k INT CONSTRAINT c NOT NULL", ["c NOT NULL (k) FAIL"]),
        ("k INT CHECK (k > 0)", ["k_check CHECK (k > 0) FAIL"]),
        ("k INT DEFAULT 1 CHECK (k > 0) COMMENT 'c'", ["k_check CHECK (k > 0) FAIL"]),
        ("k INT CHECK (k > 0) CHECK (k < 9) ON VIOLATION WARN",
         ["k_check CHECK (k > 0) FAIL", "k_check_2 CHECK (k < 9) WARN"]),
        ("k INT, CHECK (k < 1 OR (k > 2))", ["check CHECK (k < 1 OR (k > 2)) FAIL"]),
        ("k INT, v INT, CONSTRAINT c NOT NULL (k, v) ON VIOLATION QUARANTINE",
         ["c NOT NULL (k, v) QUARANTINE"]),
        ("CONSTRAINT c CHECK (k > 0)", ["c CHECK (k > 0) FAIL"]),
        ("k INT UNIQUE ON VIOLATION DROP, v INT", ["k_unique UNIQUE (k) DROP"]),
        ("k INT, v INT, CONSTRAINT u UNIQUE (k, v)", ["u UNIQUE (k, v) FAIL"]),
        ("check INT, constraint INT, unique INT, foreign INT", []),
        ("k INT, CHECK (k > 0), CONSTRAINT Check CHECK (k > 1)",
         ["check_2 CHECK (k > 0) FAIL", "Check CHECK (k > 1) FAIL"]),
    ],
)  # fmt: skip
def test_what_is_read(constraints: str, expected: list[str]) -> None:
    """Each has a name, and FAIL is what is not said."""
    found = _task(constraints).constraints
    told = [f"{c.name} {c.rule} {c.action.value}" for c in found]
    assert told == expected
    texts = ", ".join(constraint_text(c) for c in found)
    if texts:
        again = _task(f"k INT, {texts}").constraints
        assert [(c.name, c.rule, c.action) for c in again] == [
            (c.name, c.rule, c.action) for c in found
        ]


@pytest.mark.parametrize(
    ("constraints", "condition"),
    [
        ("k INT CHECK", "SYNTAX_ERROR"),
        ("k INT CHECK ()", "SYNTAX_ERROR"),
        ("k INT CHECK (k >)", "SYNTAX_ERROR"),
        ("k INT CHECK (k > 0) ON VIOLATION", "SYNTAX_ERROR"),
        ("k INT CHECK (k > 0) ON VIOLATION IGNORE", "SYNTAX_ERROR"),
        ("k INT, CONSTRAINT c CHECK (k > 0) CHECK (k > 1)", "SYNTAX_ERROR"),
        ("k INT, NOT NULL ()", "SYNTAX_ERROR"),
        ("k INT, CONSTRAINT c CHECK (k > 0), CONSTRAINT C CHECK (k > 1)", "INVALID_STATEMENT"),
        (", ".join(["k INT", *["CHECK (k > 0)"] * (CONSTRAINTS_MAX + 1)]), "INVALID_STATEMENT"),
        ("k INT CHECK (k IN (SELECT 1 FROM t))", "NOT_SUPPORTED"),
        ("k INT, UNIQUE ()", "SYNTAX_ERROR"),
        ("k INT REFERENCES t (k)", "NOT_SUPPORTED"),
        ("k INT, CONSTRAINT c REFERENCES t (k)", "NOT_SUPPORTED"),
        ("k INT, FOREIGN KEY (k) REFERENCES t (a, b)", "NOT_SUPPORTED"),
        ("k INT, PRIMARY KEY (k)", "NOT_SUPPORTED"),
    ],
)
def test_what_is_refused(constraints: str, condition: str) -> None:
    """At the place, before anything is done."""
    with pytest.raises(Error) as caught:
        _task(constraints)
    assert getattr(caught.value, "condition", None) == condition
    assert getattr(caught.value, "span", None) is not None


def test_statements() -> None:
    """ALTER adds one and drops one; SHOW lists all or those of one object."""
    added = parsed("ALTER CONTINUAL TASK x ADD CONSTRAINT c CHECK (k > 0) ON VIOLATION WARN")
    assert isinstance(added, ChangeConstraints)
    assert added.new_constraint is not None
    assert (added.new_constraint.name, added.new_constraint.action) == ("c", OnViolation.WARN)
    dropped = parsed("ALTER CONTINUAL TASK x DROP CONSTRAINT IF EXISTS c", ChangeConstraints)
    assert (dropped.dropped_name, dropped.if_exists, dropped.new_constraint) == ("c", True, None)
    shown = parsed("SHOW CONSTRAINTS FOR s.x", Show)
    assert shown.target is not None
    assert shown.target.parts == ("s", "x")
    every = parsed("SHOW CONSTRAINTS", Show)
    assert every.target is None


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ("k, v", "SELECT k, v FROM t"),
        ("k, v CHECK (v > 0)", "SELECT k, v FROM t"),
        ("k, v CHECK (v > 0) ON VIOLATION WARN", "SELECT k, v FROM t"),
        (
            "k NOT NULL ON VIOLATION DROP, v CHECK (v > 0) ON VIOLATION QUARANTINE",
            "SELECT `k`, `v` FROM (SELECT k, v FROM t\n) AS __ct_proposed(`k`, `v`)"
            " WHERE (`k` IS NOT NULL) AND ((v > 0) IS NOT FALSE)",
        ),
        (
            "k NOT NULL, v CHECK (v > 0) ON VIOLATION DROP",
            "SELECT `k`, `v` FROM (SELECT k, v FROM t\n) AS __ct_proposed(`k`, `v`)"
            " WHERE (((v > 0) IS NOT FALSE)) OR NOT ((`k` IS NOT NULL))",
        ),
        (
            "k UNIQUE ON VIOLATION DROP, v",
            "SELECT `k`, `v` FROM (SELECT *, (`k` IS NULL OR count(*) OVER (PARTITION BY `k`) = 1)"
            " AS `__ct_unique_0` FROM (SELECT k, v FROM t\n) AS __ct_proposed(`k`, `v`)) AS"
            " __ct_proposed WHERE `__ct_unique_0`",
        ),
    ],
)
def test_a_view_leaves_rows_out_by_its_query(constraints: str, expected: str) -> None:
    """DROP and QUARANTINE are a filter; FAIL is looked at before them, WARN changes nothing."""
    made = parsed(f"CREATE MATERIALIZED VIEW x ({constraints}) AS SELECT k, v FROM t")
    assert isinstance(made, CreateMaterializedView)
    text = without_broken(made, ["k", "v"])
    assert splice(text.span, text.edits).text == expected
