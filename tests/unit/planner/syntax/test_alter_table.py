"""ALTER TABLE as a value, and what they make of columns."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.schemas import Column
from ctsql.planner.syntax import ast as st, parse_as
from ctsql.runtime.statements.tables.altered_columns import (
    altered_columns,
    delta_text,
    features,
)
from tests.helpers.parsed import refused

COLUMNS = (
    Column("k", "int", nullable=False),
    Column("v", "decimal(10,2)"),
    Column("Odd Name", "string"),
)


def _parse(text: str) -> st.AlterTable:
    return parse_as(st.AlterTable, text, "<test>")


CASES = [
    (
        "ADD COLUMN z INT8 COMMENT 'it''s'",
        "ADD COLUMNS (z bigint COMMENT 'it\\'s')",
        "k v Odd Name z",
    ),
    (
        "ADD COLUMNS (a STRUCT<x: INT>, b DECIMAL(4, 1))",
        "ADD COLUMNS (a STRUCT<x: INT>, b decimal(4,1))",
        "k v Odd Name a b",
    ),
    ("ADD COLUMN IF NOT EXISTS (K INT, z INT)", "ADD COLUMNS (z int)", "k v Odd Name z"),
    ("DROP COLUMN V", "DROP COLUMNS (`v`)", "k Odd Name"),
    ("DROP COLUMNS IF EXISTS (`odd name`, nope)", "DROP COLUMNS (`Odd Name`)", "k v"),
    ("RENAME COLUMN v TO `a b`", "RENAME COLUMN `v` TO `a b`", "k a b Odd Name"),
    ("ALTER COLUMN k TYPE BIGINT", "ALTER COLUMN `k` TYPE BIGINT", "k v Odd Name"),
    (
        "ALTER v TYPE DECIMAL(12, 2)",
        "ALTER COLUMN `v` TYPE DECIMAL(12, 2)",
        "k v Odd Name",
    ),
    ("ALTER COLUMN k DROP NOT NULL", "ALTER COLUMN `k` DROP NOT NULL", "k v Odd Name"),
    ("ALTER v SET DEFAULT 1 + 1", "ALTER COLUMN `v` SET DEFAULT 1 + 1", "k v Odd Name"),
    ("ALTER v DROP DEFAULT", "ALTER COLUMN `v` DROP DEFAULT", "k v Odd Name"),
]


@pytest.mark.parametrize(("text", "expected", "left"), CASES)
def test_changes(text: str, expected: str, left: str) -> None:
    """What Delta is told, and the columns that are left."""
    read = _parse(f"ALTER TABLE s.t {text};")
    assert read.target.parts == ("s", "t")
    assert delta_text("x", read.change, COLUMNS) == f"ALTER TABLE x {expected}"
    after = altered_columns(COLUMNS, read.change)
    assert " ".join(c.name for c in after) == left


def test_values_of_columns() -> None:
    """Types and NOT NULL are what they become; what a change does not touch is the same."""
    wider = altered_columns(COLUMNS, _parse("ALTER TABLE t ALTER k TYPE BIGINT").change)
    assert wider[0] == Column("k", "bigint", nullable=False)
    assert wider[1:] == COLUMNS[1:]
    strict = altered_columns(COLUMNS, _parse("ALTER TABLE t ALTER v SET NOT NULL").change)
    assert [c.nullable for c in strict] == [False, False, True]
    assert altered_columns(COLUMNS, _parse("ALTER TABLE t RENAME COLUMN v TO v").change) == COLUMNS
    same = "ALTER TABLE t ADD COLUMN IF NOT EXISTS v INT"
    assert altered_columns(COLUMNS, _parse(same).change) == COLUMNS


def test_features() -> None:
    """What Delta needs is turned on once."""
    drop = _parse("ALTER TABLE t DROP COLUMN v").change
    widen = _parse("ALTER TABLE t ALTER k TYPE BIGINT").change
    default = _parse("ALTER TABLE t ALTER k SET DEFAULT 1").change
    needs = [[f.name for f in features(c, {})] for c in (drop, widen, default)]
    assert needs == [
        ["delta.columnMapping.mode"],
        ["delta.enableTypeWidening"],
        ["delta.feature.allowColumnDefaults"],
    ]
    has = {
        "delta.columnMapping.mode": "id",
        "delta.enableTypeWidening": "true",
        "delta.feature.allowColumnDefaults": "supported",
    }
    assert not any(features(c, has) for c in (drop, widen, default))
    assert features(_parse("ALTER TABLE t ADD COLUMN z INT").change, {}) == []
    for added in ("z TIMESTAMP_NTZ", "z ARRAY<STRUCT<a: timestamp_ntz>>"):
        added_change = _parse(f"ALTER TABLE t ADD COLUMN {added}").change
        assert [f.name for f in features(added_change, {})] == ["delta.feature.timestampNtz"]
        assert not features(added_change, {"delta.feature.timestampNtz": "supported"})


REFUSED = [
    ("ALTER TABLE t DROP COLUMN nope", "UNKNOWN_COLUMN", "nope"),
    ("ALTER TABLE t ADD COLUMN k INT", "DUPLICATE_COLUMN", "k"),
    ("ALTER TABLE t RENAME COLUMN v TO K", "DUPLICATE_COLUMN", "K"),
    ("ALTER TABLE t DROP COLUMNS (k, v, `Odd Name`)", "NOT_SUPPORTED", "k"),
    ("ALTER TABLE t ALTER k TYPE SMALLINT", "NOT_SUPPORTED", "SMALLINT"),
    ("ALTER TABLE t ALTER v TYPE DECIMAL(10, 3)", "NOT_SUPPORTED", "DECIMAL(10, 3)"),
    ("ALTER TABLE t ALTER k TYPE STRING", "NOT_SUPPORTED", "STRING"),
    ("ALTER TABLE t ADD COLUMN z INT NOT NULL", "NOT_SUPPORTED", "z"),
    ("ALTER TABLE t ADD COLUMN z INT DEFAULT 1", "NOT_SUPPORTED", "1"),
    ("ALTER TABLE t ADD COLUMN z INT AFTER k", "NOT_SUPPORTED", "AFTER"),
    ("ALTER TABLE t ADD COLUMN z VOID", "INVALID_COLUMN_TYPE", "z"),
    ("ALTER TABLE t ADD COLUMN z INTERVAL DAY", "NOT_SUPPORTED", "z"),
    ("ALTER TABLE t ADD COLUMN `a``b` INT", "INVALID_NAME", "`a``b`"),
    ("ALTER TABLE t ADD COLUMN __ct_x INT", "INVALID_NAME", "__ct_x"),
    ("ALTER TABLE t RENAME COLUMN v TO `a``b`", "INVALID_NAME", "`a``b`"),
    ("ALTER TABLE t RENAME COLUMN v TO V", "NOT_SUPPORTED", "V"),
    ("ALTER TABLE t ADD COLUMN z NOPE", "INVALID_COLUMN_TYPE", "NOPE"),
    ("ALTER TABLE t RENAME v TO z", "SYNTAX_ERROR", "v"),
    ("ALTER TABLE t DROP COLUMN k, v", "SYNTAX_ERROR", ","),
    ("ALTER TABLE t DROP COLUMNS ()", "SYNTAX_ERROR", ")"),
    ("ALTER TABLE t ALTER k COMMENT 'x'", "NOT_SUPPORTED", "COMMENT"),
    ("ALTER TABLE t ALTER k TYPO BIGINT", "SYNTAX_ERROR", "TYPO"),
    ("ALTER VIEW t DROP COLUMN k", "NOT_SUPPORTED", "DROP"),
    ("ALTER MATERIALIZED VIEW t ADD COLUMN k INT", "NOT_SUPPORTED", "ADD"),
]


@pytest.mark.parametrize(("text", "condition", "place"), REFUSED)
def test_refused(text: str, condition: str, place: str) -> None:
    """With the place, before anything is done."""
    with refused(condition, place):
        altered_columns(COLUMNS, _parse(text).change)


@pytest.mark.parametrize(
    ("change", "typed"),
    [
        ("ADD COLUMN `a b` INT NOT NULL", "ALTER COLUMN `a b` SET NOT NULL"),
        ("ADD COLUMN `a b` INT DEFAULT 1", "ALTER COLUMN `a b` SET DEFAULT ..."),
        ("ALTER COLUMN `a b` COMMENT 'c'", "COMMENT ON COLUMN <table>.`a b` IS '...'"),
    ],
)
def test_what_is_to_be_typed_is_sql(change: str, typed: str) -> None:
    """A name that is no word stands in backticks."""
    with pytest.raises(CtsqlError) as caught:
        _parse(f"ALTER TABLE t {change}")
    assert typed in (caught.value.hint or "")
