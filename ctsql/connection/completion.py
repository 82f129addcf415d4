"""Completion of keywords, objects and columns. Pure: text and a catalog in.

After a word such as FROM or INTO it offers objects and schemas, after ``alias.`` that relation's
columns, after ``schema.`` its objects. Elsewhere it offers the columns of the relations that the
text names, then objects, schemas, keywords, functions and settings. A keyword follows the case
typed.

Limits: the text is unfinished, so it is read as words. Common table expressions and subqueries in
FROM give no columns.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ctsql.catalog.names import DEFAULT_SCHEMA, fold, quote, unquote
from ctsql.catalog.schemas import Schema
from ctsql.planner.syntax.tokens.tokenizer import find_unclosed

_KEYWORD_TEXT = """
    ADD AFTER ALIGNED ALTER ANALYZE AND APPLY AS ASC ASSERT AT AUTO BACKFILL BEGIN BETWEEN BLAME
    BY CASCADE CASE CAST CDC CHANGE CHECK COALESCE COLUMN COLUMNS COMMENT COMMIT CONSTRAINT
    CONSTRAINTS CONTINUAL COPY CREATE CROSS DATA DEFAULT DELETE DESC DESCRIBE DISTINCT DROP
    DROPPED DRY ELSE END ERROR EXCEPT EXISTS EXPECT EXPLAIN EXTENDED FAIL FALSE FIXPOINT
    FLOW FROM FULL GIVEN GROUP HAVING IF IN INNER INPUT INSERT INTERSECT INTO IS
    ITERATIONS JOIN KEY KEYS LAST LEFT LIKE LIMIT LOCATION MAINTAIN MATCHED MATERIALIZED MERGE
    NO NOT NULL OBJECTS OF ON OR ORDER OUTER OUTPUT OUTPUTS OVER PARTITION PENDING
    POLICY PURGE QUALIFY QUARANTINE RECURSIVE REFRESH RENAME REPAIR
    REPLACE REPLACEMENT REPLAY RESET RESUME RETAIN RETENTION RETRY RIGHT ROLLBACK ROWS RUN
    SCHEMA SCHEMAS SELECT SEQUENCE SET SHOW SINCE SKIP SNAPSHOT START STORED
    STREAM SUBSCRIBE SUBSCRIPTION SUBSCRIPTIONS SUSPEND TABLE TABLES TASK TASKS TEST
    THEN TO TRANSACTION TRANSFORM TRUE TYPE UNDROP UNION UNIQUE UPDATE USE USING VALUES VERIFY
    VIEW VIEWS VIOLATION WARN WHEN WHERE WHY WITH
    BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE FLOAT INT STRING TIMESTAMP
"""
KEYWORDS = tuple(_KEYWORD_TEXT.split())
_BEFORE_RELATION = {
    *("from", "join", "into", "input", "output", "update", "table", "view", "task"),
    *("describe", "desc", "extended", "maintain", "retention", "subscribe", "using"),
    *("verify", "analyze", "blame", "why"),
}
"""Words that are followed by a relation's name."""
_PART = r"(?:`(?:[^`]|``)*`|[A-Za-z_]\w*)"
_PATH = re.compile(rf"(?:{_PART}\.)*(?:`(?:[^`]|``)*|[A-Za-z_]\w*)?$")
_TOKEN = re.compile(rf"{_PART}(?:\.{_PART})*|\S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What a query can read: an object of the warehouse, or a system table.

    Attributes:
        kind: table, view, materialized view, continual task, task output or system table.
        columns: each has ``name``, ``type`` (Spark's name of it), ``nullable`` and ``comment``.
        definition: the statement that made it, as typed; empty if there is none.
        id: never changes and is never used again.
    """

    schema: str
    name: str
    kind: str
    columns: Schema
    comment: str | None = None
    definition: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A completion: ``text`` replaces the last ``length`` characters typed."""

    text: str
    length: int
    kind: str  # keyword, column, schema, or the object's kind


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The possible completions; ``schema`` is that of unqualified names."""

    objects: Sequence[Relation] = ()
    schemas: Sequence[str] = ()
    functions: Sequence[str] = ()
    settings: Sequence[str] = ()
    schema: str = DEFAULT_SCHEMA


def complete(text: str, vocabulary: Vocabulary, after: str = "") -> list[Candidate]:
    """Completions for a text that ends at the cursor, best first.

    Args:
        text: the input up to the cursor. after: the rest; its relations count, too.
        vocabulary: the possible completions; few while Spark starts.
    """
    if _is_in_string_or_comment(text):
        return []
    match = _PATH.search(text)
    path = match[0] if match else ""
    qualifier, _, word = path.rpartition(".")
    relations = _relations(_TOKEN.findall(f"{text} {after}"), vocabulary)
    before = [fold(token) for token in _TOKEN.findall(text[: len(text) - len(path)])]
    # In CREATE OR REPLACE TABLE the name is new.
    is_new = "create" in before[-4:] and "show" not in before
    if qualifier:
        entries = _qualified(qualifier, relations, vocabulary)
    elif before and before[-1] in _BEFORE_RELATION and not is_new:
        entries = _names(vocabulary)
    else:
        entries = _anything(word, relations, vocabulary)
    prefix = fold(word.lstrip("`"))
    shapes: dict[str, Candidate] = {}
    for name, kind in entries:
        shape = name if kind in ("keyword", "function", "setting") else quote(name)
        if fold(name).startswith(prefix):
            shapes.setdefault(shape, Candidate(shape, len(word), kind))
    return list(shapes.values())


def _is_in_string_or_comment(text: str) -> bool:
    unclosed = find_unclosed(text)
    is_quoted = unclosed is not None and unclosed[1] != "a quoted name"
    return is_quoted or "--" in text.rpartition("\n")[2]


def _lookup(path: str, vocabulary: Vocabulary) -> Relation | None:
    parts = [fold(unquote(part)) for part in re.findall(_PART, path)]
    full = parts if len(parts) > 1 else [fold(vocabulary.schema), *parts]
    return next((o for o in vocabulary.objects if full == [fold(o.schema), fold(o.name)]), None)


def _relations(tokens: Sequence[str], vocabulary: Vocabulary) -> dict[str, Relation]:
    """The relations that the text names, by name, and by the word after the name or AS."""
    relations: dict[str, Relation] = {}
    for at, token in enumerate(tokens):
        item = _lookup(token, vocabulary)
        if item is not None:
            alias = [t for t in tokens[at + 1 : at + 3] if fold(t) != "as"][:1]
            relations |= {fold(unquote(name)): item for name in (item.name, *alias)}
    return relations


def _qualified(
    qualifier: str, relations: dict[str, Relation], vocabulary: Vocabulary
) -> Iterator[tuple[str, str]]:
    last = fold(unquote(re.findall(_PART, qualifier)[-1]))
    item = relations.get(last) or _lookup(qualifier, vocabulary)
    if item is not None:
        yield from ((column.name, "column") for column in item.columns)
    else:
        yield from ((o.name, o.kind) for o in vocabulary.objects if fold(o.schema) == last)


def _names(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    own = fold(vocabulary.schema)
    yield from ((o.name, o.kind) for o in vocabulary.objects if fold(o.schema) == own)
    yield from ((schema, "schema") for schema in sorted(vocabulary.schemas) if fold(schema) != own)


def _anything(
    word: str, relations: dict[str, Relation], vocabulary: Vocabulary
) -> Iterator[tuple[str, str]]:
    for item in relations.values():
        yield from ((column.name, "column") for column in item.columns)
    yield from _names(vocabulary)
    if not word:
        return
    for keyword in sorted(KEYWORDS):
        yield (keyword.lower() if word.islower() else keyword), "keyword"
    yield from ((f"{name}(", "function") for name in vocabulary.functions if name.isidentifier())
    yield from ((setting, "setting") for setting in vocabulary.settings)
