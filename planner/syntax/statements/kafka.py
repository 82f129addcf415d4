"""Reads FROM KAFKA: the options, what the values are, and what comes in beside them."""

import json
import re
from typing import Any

from ctsql.catalog.errors import bad_option, invalid
from ctsql.catalog.items import KafkaSource
from ctsql.catalog.names import did_you_mean
from ctsql.planner.syntax.tokens.file_refs import option_value
from ctsql.planner.syntax.tokens.token_reader import Cursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Tokens, cut_at_commas, span_of

FORMATS = ("json", "text", "bytes")
PARTS = ("key", "partition", "offset", "timestamp", "error")
"""What INCLUDE names; ``error`` is the text of a value that cannot be read."""
_OPTIONS = ("broker", "topic", "start", "max_records", "data_loss")
_PASSED = "kafka."
_SET_BY_US = ("kafka.bootstrap.servers",)
_SECRET = re.compile(r"secret|password|token|credential|jaas|ssl\.(keystore\.key|key)$")
"""Names of options whose values nobody is to see."""


def read_kafka(cursor: Cursor) -> KafkaSource:
    """Read ``(options) [FORMAT format] [INCLUDE part [AS column], ...]``.

    Raises SYNTAX_ERROR, INVALID_STATEMENT, INVALID_OPTION.
    """
    cursor.accept("WITH")
    place = cursor.here
    values: dict[str, Any] = {}
    options: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for group in cut_at_commas(cursor.group("the options BROKER and TOPIC")):
        if not group:
            raise syntax_error(place, "an option is missing between two commas")
        _read_option(group, values, options, secrets)
    for name in ("broker", "topic"):
        if not values.get(name):
            hint = "Type: FROM KAFKA (BROKER 'host:9092', TOPIC 'orders')"
            raise syntax_error(place, f"the option {name.upper()} is missing", hint=hint)
    return KafkaSource(
        brokers=values["broker"],
        topic=values["topic"],
        format=_read_format(cursor) if cursor.accept("FORMAT") else "json",
        start=values.get("start", "earliest"),
        records_max=values.get("max_records"),
        may_lose=values.get("data_loss", False),
        included=_read_included(cursor) if cursor.accept("INCLUDE") else (),
        options=tuple(options.items()),
        secrets=tuple(secrets.items()),
    )


def _read_option(
    group: Tokens, values: dict[str, Any], options: dict[str, str], secrets: dict[str, str]
) -> None:
    cursor = Cursor(group, of="option")
    tokens = cursor.dotted_name("an option, as TOPIC 'orders'")
    span = span_of(tokens)
    name = ".".join(token.text for token in tokens).lower()
    if name in values or name in options or name in secrets:
        raise invalid(span, f"option {name} is given twice")
    if name in _SET_BY_US or not (name in _OPTIONS or name.startswith(_PASSED)):
        near = did_you_mean(name, _OPTIONS)
        option_list = ", ".join(n.upper() for n in _OPTIONS)
        detail = f"The options are {option_list}, and those of Kafka, as kafka.security.protocol."
        raise invalid(span, f"there is no option {name}", detail, near)
    _ = cursor.accept("=") or cursor.accept("=>")
    if name in _OPTIONS:
        values[name] = _value(cursor, name)
    elif cursor.accept("ENV"):
        secrets[name] = cursor.string("the name of a variable in quotes").text
    elif _SECRET.search(name):
        detail = "What a statement says can be read by all who can read the warehouse."
        hint = f"Put it into a variable of the environment, and type: {name} ENV 'NAME'"
        raise bad_option(span, name, detail, value="a text that stands here", hint=hint)
    else:
        options[name] = option_value(cursor, name)
    cursor.end()


def _value(cursor: Cursor, name: str) -> Any:
    """The value of an option of ours."""
    place = cursor.here
    if name == "start" and cursor.current is not None and cursor.current.kind is not Kind.STRING:
        text = cursor.take().text.lower()
    else:
        text = cursor.take().text if name == "data_loss" else option_value(cursor, name)
    match name:
        case "start":
            if text.lower() in ("earliest", "latest"):
                return text.lower()
            if _is_offsets(text):
                return text
            detail = 'It is earliest, latest, or offsets by partition: \'{"0": 17, "1": -1}\'.'
            raise bad_option(place, "START", detail)
        case "max_records":
            if text.isdecimal() and int(text) > 0:
                return int(text)
            raise bad_option(place, "MAX_RECORDS", "It is a number, 1 or more.")
        case "data_loss":
            if text.lower() not in ("fail", "skip"):
                raise bad_option(place, "DATA_LOSS", "It is fail or skip.")
            return text.lower() == "skip"
    return text.strip()


def _is_offsets(text: str) -> bool:
    """Is it a JSON object from partition to offset, -2 for the earliest and -1 for the latest?

    >>> _is_offsets('{"0": 5, "1": -1}'), _is_offsets('{"0": "5"}'), _is_offsets("newest")
    (True, False, False)
    """
    try:
        read = json.loads(text)
    except ValueError:
        return False
    return isinstance(read, dict) and all(
        partition.isdecimal() and type(offset) is int and offset >= -2
        for partition, offset in read.items()
    )


def _read_format(cursor: Cursor) -> str:
    place = cursor.here
    name = cursor.name("json, text or bytes").text.lower()
    if name not in FORMATS:
        detail = f"The formats are: {', '.join(FORMATS)}."
        raise bad_option(place, "FORMAT", detail, value=name, hint=did_you_mean(name, FORMATS))
    return name


def _read_included(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    columns: dict[str, str] = {}
    while True:
        token = cursor.name("KEY, PARTITION, OFFSET, TIMESTAMP or ERROR")
        part = token.text.lower()
        if part not in PARTS or part in columns:
            detail = f"Each is given once, of: {', '.join(p.upper() for p in PARTS)}."
            hint = did_you_mean(part, PARTS)
            raise bad_option(token.span, "INCLUDE", detail, value=token.text, hint=hint)
        columns[part] = cursor.name("the column").text if cursor.accept("AS") else part
        if not cursor.accept(","):
            return tuple(columns.items())
