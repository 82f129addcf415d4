"""Completion, as a function of text and catalog."""

from dataclasses import replace

import pytest

from ctsql.connection.completion import Vocabulary, complete
from tests.frontdoors.fake_connection import FakeConnection

KNOWN = FakeConnection().known()


def names(text: str, after: str = "", vocabulary: Vocabulary = KNOWN) -> list[str]:
    return [found.text for found in complete(text, vocabulary, after)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sel", ["select"]),
        ("SEL", ["SELECT"]),
        ("SELECT * FROM ", ["orders", "`odd name`", "sales"]),
        ("SELECT * FROM OR", ["orders"]),
        ("SELECT * FROM orders o WHERE o.", ["id", "customer", "total"]),
        ("SELECT * FROM orders AS o WHERE O.c", ["customer"]),
        ("SELECT * FROM orders WHERE orders.t", ["total"]),
        ("SELECT * FROM sales.", ["daily"]),
        ("SELECT * FROM sales.daily d WHERE d.", ["day", "total"]),
        ("SELECT * FROM `odd", ["`odd name`"]),
        ("SELECT * FROM `odd name` o WHERE o.", ["`a b`"]),
        ("SELECT * FROM orders WHERE cu", ["customer"]),
        ("INSERT INTO o", ["orders", "`odd name`"]),
        ("CREATE CONTINUAL TASK x ON INPUT o", ["orders", "`odd name`"]),
        ("DESCRIBE s", ["sales"]),
        ("SELECT 'sel", []),
        ("SELECT 1 -- sel", []),
        ("SELECT 1 /* sel", []),
        ("SELECT /* FROM */ cou", ["count("]),
        ("SELECT f(a, ", ["orders", "`odd name`", "sales"]),
        ("SET iso", ["isolation"]),
        ("USE sal", ["sales"]),
        ("DROP TABLE ", ["orders", "`odd name`", "sales"]),
        ("REFRESH MATERIALIZED VIEW sales.", ["daily"]),
        ("SHOW CREATE TABLE o", ["orders", "`odd name`"]),
        ("CREATE OR REPLACE TABLE or", ["orders", "or", "order"]),
    ],
)
def test_what_may_come_next_is_offered(text: str, expected: list[str]) -> None:
    """By context, without regard to case."""
    assert names(text) == expected


def test_columns_of_a_relation_after_the_cursor_are_known() -> None:
    """As when the list of columns is filled in last."""
    assert names("SELECT cu", " FROM orders") == ["customer"]
    assert names("SELECT to", " FROM orders") == ["total", "to"]


def test_a_candidate_replaces_what_was_typed() -> None:
    """The last part only, not what stands before its dot."""
    (found,) = complete("SELECT * FROM sales.da", KNOWN)
    assert (found.text, found.length, found.kind) == ("daily", 2, "materialized view")


def test_nothing_is_known_while_spark_starts() -> None:
    """Keywords are."""
    assert complete("SELECT * FROM ", Vocabulary()) == []
    assert [found.text for found in complete("crea", Vocabulary())] == ["create"]


def test_unqualified_names_are_those_of_the_schema_in_use() -> None:
    """And the others are behind their schema's name."""
    known = replace(KNOWN, schema="sales")
    assert names("SELECT * FROM ", vocabulary=known) == ["daily", "default"]
    assert names("SELECT * FROM daily WHERE d", vocabulary=known)[:1] == ["day"]
    assert names("SELECT * FROM orders WHERE cu", vocabulary=known) == []
