"""Plans as values: what is saved, what is no longer true, and what people are told."""

import json
from dataclasses import replace

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.cli.folder_commands import exit_code, lines_of
from ctsql.runtime.pipelines.plan import (
    Effect,
    FolderPlan,
    PlannedChange,
    PlannedStatus,
    PlanRefusal,
    check_still,
    read_plan,
)

NEW = PlannedChange(
    name="a", keyword="TABLE", status=PlannedStatus.NEW, effect=Effect.CREATED_EMPTY
)
VIEW = PlannedChange(
    name="v",
    keyword="MATERIALIZED VIEW",
    status=PlannedStatus.CHANGED,
    parts=("query", "columns"),
    effect=Effect.REBUILT,
    incremental=False,
    reason="SAMPLE: a sample is not a function of the table, at x.sql:1:2",
    readers=("w",),
)
SAME = PlannedChange(name="s", keyword="VIEW", status=PlannedStatus.UNCHANGED)
REFUSED = PlannedChange(
    name="r",
    keyword="TABLE",
    status=PlannedStatus.REFUSED,
    refusal=PlanRefusal(condition="C", message="m", detail="D.", hint="h", place="x.sql:1:1"),
)
PLAN = FolderPlan(changes=(NEW, VIEW, SAME), warehouse="1", folder="2")


def test_exit_codes() -> None:
    """0 nothing to do, 2 changes, 4 refused."""
    assert exit_code(replace(PLAN, changes=(SAME,))) == 0
    assert exit_code(PLAN) == 2
    assert exit_code(replace(PLAN, changes=(NEW, REFUSED))) == 4


def test_as_text() -> None:
    """A block for each object that changes, and a line that counts all."""
    assert list(lines_of(replace(PLAN, changes=(NEW, VIEW, SAME, REFUSED)))) == [
        "+ table a: new: an empty table is created",
        "~ materialized view v: changed (query, columns): rebuilt: all rows are written, with "
        "the new columns",
        "    recomputed each time: SAMPLE: a sample is not a function of the table, at x.sql:1:2",
        "    read by w",
        "! table r: refused",
        "    C: m (x.sql:1:1)",
        "    D.",
        "    hint: h",
        "1 new, 1 unchanged, 1 changed, 1 refused",
    ]


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (PLAN, ""),
        (replace(PLAN, changes=(NEW, replace(VIEW, readers=()), SAME)), ""),
        (replace(PLAN, warehouse="x"), "Definitions in the warehouse changed since."),
        (replace(PLAN, folder="x"), "The folder changed since."),
        (replace(PLAN, changes=(NEW, VIEW)), "It differs for: s."),
        (replace(PLAN, changes=(NEW, replace(VIEW, parts=("query",)), SAME)), "It differs for: v."),
        (
            replace(PLAN, changes=(replace(NEW, alterations=("ALTER TABLE a",)), VIEW, SAME)),
            "It differs for: a.",
        ),
    ],
)
def test_a_saved_plan(now: FolderPlan, message: str) -> None:
    """Readers may differ, which are not of the folder; what is done may not."""
    before = read_plan(json.dumps(PLAN.to_json()), "p.json")
    if not message:
        check_still(before, now)
        return
    with pytest.raises(CtsqlError) as caught:
        check_still(before, now)
    assert message in str(caught.value.detail)


def test_a_schema_may_be_called_as_a_table_is() -> None:
    """Of two that have one name each is compared with itself; the letters of names do not count."""
    schema = PlannedChange(
        name="A", keyword="SCHEMA", status=PlannedStatus.NEW, effect=Effect.SCHEMA
    )
    made = replace(PLAN, changes=(schema, NEW, VIEW))
    before = read_plan(json.dumps(made.to_json()), "p.json")
    check_still(before, made)
    check_still(before, replace(made, changes=(schema, NEW, replace(VIEW, name="V"))))
    with pytest.raises(CtsqlError) as caught:
        check_still(before, replace(made, changes=(NEW, VIEW)))
    assert "It differs for: a." in str(caught.value.detail)


_CHANGED = '{"format": 1, "warehouse": "", "folder": "", "changes": %s}'


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, '{"a":' * 100_000),
        *("", "[]", "{}", '{"format": 99}', '{"format": 1}'),
        *(
            _CHANGED % c
            for c in ("5", "[5]", "[{}]", '[{"name": 1}]', '[{"name": "a", "parts": 1}]')
        ),
    ],
    ids=lambda text: text[:9] + text[-30:],
)
def test_no_plan(text: str) -> None:
    """A file that holds something else is refused."""
    with pytest.raises(CtsqlError, match="PLAN_UNUSABLE") as caught:
        read_plan(text, "p.json")
    assert "Error" not in str(caught.value.detail)
