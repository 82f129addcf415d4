"""Defaults of a table's columns that its statements do not say."""

import json

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse
from ctsql.runtime.log.table_metadata import TableMetadata
from ctsql.runtime.statements.dml.stored_rules import unsaid_defaults

MADE = "CREATE TABLE t (a INT, b STRING DEFAULT 'x', c TIMESTAMP DEFAULT now ( ))"


def _metadata(**defaults: str | None) -> TableMetadata:
    fields = [
        {
            "name": name,
            "type": "string",
            "nullable": True,
            "metadata": {} if value is None else {"CURRENT_DEFAULT": value},
        }
        for name, value in defaults.items()
    ]
    text = json.dumps({"type": "struct", "fields": fields})
    return TableMetadata({"id": "i", "schemaString": text})


@pytest.mark.parametrize(
    ("changes", "stored", "unsaid"),
    [
        ([], {"a": None, "b": "'x'", "c": "now()"}, []),
        ([], {"a": "7", "b": "'x'", "c": "now()"}, ["ALTER COLUMN a SET DEFAULT 7"]),
        ([], {"a": None, "b": "'X'", "c": None},
         ["ALTER COLUMN b SET DEFAULT 'X'", "ALTER COLUMN c DROP DEFAULT"]),
        (["ALTER b SET DEFAULT 'y'", "ALTER c DROP DEFAULT"], {"b": "'y'", "c": None}, []),
        (["RENAME COLUMN b TO d", "ALTER a SET DEFAULT 7", "DROP COLUMN a"],
         {"d": "'x'", "c": "now()"}, []),
        (["DROP COLUMN b", "ADD COLUMN b INT"], {"b": None, "c": "now()"}, []),
    ],
)  # fmt: skip
def test_what_no_statement_says(
    changes: list[str], stored: dict[str, str | None], unsaid: list[str]
) -> None:
    """Other writers, or a process that was killed, gave columns a default or took it away."""
    texts = [MADE, *(f"ALTER TABLE t {change}" for change in changes)]
    said = [parse(Source(text, "<test>").whole()) for text in texts]
    assert unsaid_defaults(said, _metadata(**stored)) == unsaid
