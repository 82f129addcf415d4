"""Completion of keywords, objects and columns. Pure: text and a catalog in.

Where a relation must stand (after FROM, JOIN, INTO, ON INPUT ...) it offers only objects and
schemas. After SET it offers settings, after USE schemas, after ``alias.`` that relation's columns.
Elsewhere it offers the columns of the relations that the text names, then keywords and functions. A
keyword follows the case typed.

Limits: the text is unfinished, so it is read as words. Common table expressions and subqueries in
FROM give no columns.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ctsql.catalog.names import DEFAULT_SCHEMA, fold, quote, unquote

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
# Words that are followed by a relation's name.
_BEFORE_RELATION = {
    *("from", "join", "into", "input", "output", "update", "table", "view", "task"),
    *("describe", "desc", "extended", "maintain", "retention", "subscribe", "using"),
    *("verify", "analyze", "blame", "why"),
}
_SETTING = ("set", "reset", "show")
# Words that end the list of relations after FROM, so that a comma no longer asks for one.
_ENDS_RELATIONS = {
    *("where", "group", "order", "having", "on", "select", "set", "values", "limit"),
    *("union", "except", "intersect", "as"),
}
_NOT_AN_ALIAS = _ENDS_RELATIONS | {
    *("join", "left", "right", "inner", "outer", "cross", "full", "natural", "using"),
    *("when", "with", "is", "in", "and", "or", "if"),
}
_HIDDEN = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_PART = r"(?:`(?:[^`]|``)*`|[A-Za-z_]\w*)"
_PATH = re.compile(rf"(?:{_PART}\.)*(?:`(?:[^`]|``)*|[A-Za-z_]\w*)?$")
_TOKEN = re.compile(rf"{_PART}(?:\.{_PART})*|[(),;]|\S")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object, for completion."""

    schema: str
    name: str
    kind: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A completion: ``text`` replaces the last ``length`` characters typed."""

    text: str
    length: int
    kind: str  # keyword, column, schema, or the object's kind


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The possible completions; ``schema`` is that of unqualified names."""

    objects: Sequence[ObjectInfo] = ()
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
    objects = vocabulary.objects
    visible = _HIDDEN.sub(_blank, text)
    if _inside_hidden(visible):
        return []
    match = _PATH.search(visible)
    path = match[0] if match else ""
    qualifier, _, word = path.rpartition(".")
    if not path and visible and not visible[-1].isspace() and visible[-1] not in "(,=<>+-*/":
        return []
    tokens = _TOKEN.findall(visible[: len(visible) - len(path)])
    both = _TOKEN.findall(visible + " " + _HIDDEN.sub(_blank, after))
    relations = _relations(both, objects, vocabulary.schema)
    wants_relation = _wants_relation(tokens)
    entries: Iterator[tuple[str, str]]
    if qualifier:
        entries = _complete_qualified(qualifier, relations, vocabulary, only_objects=wants_relation)
    elif wants_relation:
        entries = _names(vocabulary)
    elif tokens and fold(tokens[-1]) == "use":
        entries = ((schema, "schema") for schema in vocabulary.schemas)
    elif len(tokens) == 1 and fold(tokens[0]) in _SETTING:
        entries = ((setting, "setting") for setting in vocabulary.settings)
    elif not word:
        entries = _columns(relations)
    else:
        entries = _anything(word, relations, vocabulary.functions)
    prefix = fold(word.lstrip("`"))
    shapes: set[str] = set()
    result = []
    for name, kind in entries:
        shape = name if kind in ("keyword", "function", "setting") else quote(name)
        if fold(name).startswith(prefix) and shape not in shapes:
            shapes.add(shape)
            result.append(Candidate(shape, len(word), kind))
    return result


def _blank(match: re.Match[str]) -> str:
    """A closed string or comment becomes a blank; a line comment at the cursor stays open."""
    at_cursor = match[0].startswith("--") and match.end() == len(match.string)
    return "/*" if at_cursor else " "


def _inside_hidden(text: str) -> bool:
    """Whether the cursor is in a string or a comment that has not been closed."""
    bare = re.sub(r"`(?:[^`]|``)*`", " ", text)
    return "'" in bare or '"' in bare or "/*" in bare


def _wants_relation(tokens: Sequence[str]) -> bool:
    words = [fold(token) for token in tokens]
    if words[-2:] in (
        ["subscribe", "to"], ["show", "create"],
        ["explain", "row"],
    ):  # fmt: skip
        return True
    if not words:
        return False
    if words[-1] in _BEFORE_RELATION:
        makes_one = "create" in words[-4:] and "show" not in words[-4:]  # CREATE OR REPLACE TABLE
        return not makes_one
    if words[-1] != ",":
        return False
    depth = 0
    for word in reversed(words):  # FROM a, b,
        depth += {")": 1, "(": -1}.get(word, 0)
        if depth < 0 or (depth == 0 and word in _ENDS_RELATIONS):
            return False
        if depth == 0 and word in ("from", "input"):
            return True
    return False


def _parts(path: str) -> list[str]:
    return [unquote(part) for part in re.findall(_PART, path)]


def _lookup(path: str, objects: Sequence[ObjectInfo], schema: str) -> ObjectInfo | None:
    parts = [fold(part) for part in _parts(path)]
    full = parts if len(parts) > 1 else [fold(schema), *parts]
    return next((o for o in objects if full == [fold(o.schema), fold(o.name)]), None)


def _relations(
    tokens: Sequence[str], objects: Sequence[ObjectInfo], schema: str
) -> dict[str, ObjectInfo]:
    """The relations the text names, by alias and by name."""
    relations: dict[str, ObjectInfo] = {}
    for at, token in enumerate(tokens):
        if not re.fullmatch(_PART + rf"(?:\.{_PART})*", token):
            continue
        if not _wants_relation(tokens[:at]):
            continue
        item = _lookup(token, objects, schema)
        if item is None:
            continue
        relations[fold(item.name)] = item
        rest = [t for t in tokens[at + 1 : at + 3] if fold(t) != "as"]
        if rest and re.fullmatch(_PART, rest[0]) and fold(rest[0]) not in _NOT_AN_ALIAS:
            relations[fold(unquote(rest[0]))] = item
    return relations


def _complete_qualified(
    qualifier: str,
    relations: dict[str, ObjectInfo],
    vocabulary: Vocabulary,
    *,
    only_objects: bool,
) -> Iterator[tuple[str, str]]:
    last = fold(_parts(qualifier)[-1]) if _parts(qualifier) else ""
    if not only_objects:
        item = relations.get(last) or _lookup(qualifier, vocabulary.objects, vocabulary.schema)
        if item is not None:
            yield from ((column, "column") for column in item.columns)
            return
    yield from ((o.name, o.kind) for o in vocabulary.objects if fold(o.schema) == last)


def _names(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    own = fold(vocabulary.schema)
    yield from ((o.name, o.kind) for o in vocabulary.objects if fold(o.schema) == own)
    yield from ((schema, "schema") for schema in sorted(vocabulary.schemas) if fold(schema) != own)


def _columns(relations: dict[str, ObjectInfo]) -> Iterator[tuple[str, str]]:
    for item in relations.values():
        yield from ((column, "column") for column in item.columns)


def _anything(
    word: str, relations: dict[str, ObjectInfo], functions: Sequence[str]
) -> Iterator[tuple[str, str]]:
    yield from _columns(relations)
    lower = word.islower()
    for keyword in sorted(KEYWORDS):
        yield (keyword.lower() if lower else keyword), "keyword"
    yield from ((f"{name}(", "function") for name in functions if name.isidentifier())
