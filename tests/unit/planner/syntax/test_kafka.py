"""FROM KAFKA is read, with its options; secrets are no part of a statement."""

import pytest

from ctsql.catalog.items import Item, KafkaSource, ObjectKind
from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse, rewrite
from ctsql.planner.syntax.ast import CreateTable
from tests.helpers.parsed import refused

_TABLE = "CREATE TABLE t (a INT, k STRING) FROM KAFKA"
_PLACE = "BROKER 'h:9092', TOPIC 'x'"


def _read(text: str) -> CreateTable:
    read = parse(Source(text).whole())
    assert isinstance(read, CreateTable)
    return read


def test_all_clauses() -> None:
    """They go from the text that Spark is given, and come back from the catalog."""
    read = _read(
        f"{_TABLE} ({_PLACE}, START => '{{\"0\": 5}}', MAX_RECORDS = 10, DATA_LOSS skip, "
        "kafka.security.protocol 'SSL', kafka.ssl.key.password ENV 'PASS') "
        "FORMAT JSON INCLUDE KEY AS k, OFFSET COMMENT 'c'"
    )
    wanted = KafkaSource(
        brokers="h:9092",
        topic="x",
        format="json",
        start='{"0": 5}',
        records_max=10,
        may_lose=True,
        included=(("key", "k"), ("offset", "offset")),
        options=(("kafka.security.protocol", "SSL"),),
        secrets=(("kafka.ssl.key.password", "PASS"),),
    )
    assert read.feed == wanted
    text = rewrite(read.text, relation=lambda _: "v").text
    assert text == "CREATE TABLE t (a INT, k STRING)  COMMENT 'c'"
    item = Item(id="i", kind=ObjectKind.TABLE, name=Name("d", "t"), columns=(), feed=wanted)
    assert Item.from_json(item.to_json()) == item


def test_defaults() -> None:
    """JSON from the first message on; a query of a table named kafka stays one."""
    read = _read(f"{_TABLE} ({_PLACE})")
    assert read.feed == KafkaSource(brokers="h:9092", topic="x", format="json")
    assert _read("CREATE TABLE t FROM kafka SELECT a").feed is None


@pytest.mark.parametrize(
    ("clause", "condition", "place"),
    [
        ("(TOPIC 'x')", "SYNTAX_ERROR", "("),
        (f"({_PLACE}, TOPIC 'y')", "INVALID_STATEMENT", "TOPIC"),
        (f"({_PLACE}, TOPICS 'y')", "INVALID_STATEMENT", "TOPICS"),
        (
            f"({_PLACE}, kafka.bootstrap.servers 'y')",
            "INVALID_STATEMENT",
            "kafka.bootstrap.servers",
        ),
        (f"({_PLACE}, kafka.sasl.jaas.config 'y')", "INVALID_OPTION", "kafka.sasl.jaas.config"),
        (f"({_PLACE}, kafka.ssl.key.password 'y')", "INVALID_OPTION", "kafka.ssl.key.password"),
        (f"({_PLACE}, START newest)", "INVALID_OPTION", "newest"),
        (f"({_PLACE}, START '[1]')", "INVALID_OPTION", "'[1]'"),
        (f"({_PLACE}, MAX_RECORDS 0)", "INVALID_OPTION", "0"),
        (f"({_PLACE}, DATA_LOSS maybe)", "INVALID_OPTION", "maybe"),
        (f"({_PLACE}) FORMAT xml", "INVALID_OPTION", "xml"),
        (f"({_PLACE}) INCLUDE HEADER", "INVALID_OPTION", "HEADER"),
        (f"({_PLACE}) INCLUDE KEY, KEY AS k", "INVALID_OPTION", "KEY"),
        (f"({_PLACE}) AS SELECT 1", "NOT_SUPPORTED_YET", "("),
    ],
)
def test_refused(clause: str, condition: str, place: str) -> None:
    """With the place of what is wrong."""
    with refused(condition, place):
        _read(f"{_TABLE} {clause}")
