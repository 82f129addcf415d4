"""Completion of keywords, objects and columns. Pure: text and a catalog in.

Where a relation must stand (after FROM, JOIN, INTO, ON INPUT, DESCRIBE ...) it offers only objects
and schemas; after ``alias.`` that relation's columns; elsewhere the columns of the relations that
the text names, then keywords. Case does not matter; a keyword follows the case typed.

Limits: the text is unfinished, so it is read as words, not as a parse tree. Common table
expressions and subqueries in FROM give no columns.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ctsql.catalog.names import DEFAULT_SCHEMA, fold, quote, unquote

_KEYWORD_TEXT = """
    ALIGNED ALTER ANALYZE AND AS AT BETWEEN BY CASCADE CASE CAST COLUMNS COMMENT COMMIT CONTINUAL
    CREATE CROSS DEFAULT DELETE DESC DESCRIBE DISTINCT DROP DRY ELSE END EXCEPT EXISTS EXPLAIN
    EXTENDED FALSE FIXPOINT FLOW FROM FULL GROUP HAVING IF IN INNER INPUT INSERT INTERSECT INTO IS
    ITERATIONS JOIN LEFT LIKE LIMIT LOCATION MAINTAIN MATCHED MATERIALIZED MERGE NOT NULL OBJECTS OF
    ON OR ORDER OUTER OUTPUT OUTPUTS OVER PARTITION PHYSICAL POLICY REFRESH RENAME REPAIR REPLACE
    RESET RESUME RETAIN RETENTION RETRY RIGHT RUN SCHEMA SCHEMAS SELECT SET SHOW SKIP SNAPSHOT
    SUBSCRIBE SUBSCRIPTION SUBSCRIPTIONS SUSPEND TABLE TABLES TASK TASKS THEN TO TRUE UNION UPDATE
    USE USING VALUES VERIFY VIEW VIEWS WHEN WHERE WITH
    BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE FLOAT INT STRING TIMESTAMP
"""
KEYWORDS = tuple(_KEYWORD_TEXT.split())
# Words that begin the place of a relation's name.
_BEFORE_RELATION = {
    *("from", "join", "into", "input", "output", "update", "table", "view", "task"),
    *("describe", "desc", "extended", "maintain", "retention", "subscribe", "using"),
    *("verify", "analyze"),
}
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


def complete(text: str, objects: Sequence[ObjectInfo], after: str = "") -> list[Candidate]:
    """Completions for a text that ends at the cursor, best first.

    Args:
        text: the input up to the cursor. after: the input after it; its relations count, too.
        objects: of the catalog; empty while Spark starts.
    """
    shown = _HIDDEN.sub(_blank, text)
    if _inside_hidden(shown):
        return []
    found = _PATH.search(shown)
    path = found[0] if found else ""
    qualifier, _, word = path.rpartition(".")
    if not path and shown and not shown[-1].isspace() and shown[-1] not in "(,=<>+-*/":
        return []
    tokens = _TOKEN.findall(shown[: len(shown) - len(path)])
    relations = _relations(_TOKEN.findall(shown + " " + _HIDDEN.sub(_blank, after)), objects)
    wants_relation = _wants_relation(tokens)
    offered: Iterator[tuple[str, str]]
    if qualifier:
        offered = _complete_qualified(qualifier, relations, objects, only_objects=wants_relation)
    elif wants_relation:
        offered = _names(objects)
    elif not word:
        offered = _columns(relations)
    else:
        offered = _anything(word, relations)
    prefix = fold(word.lstrip("`"))
    seen: set[str] = set()
    result = []
    for name, kind in offered:
        shape = name if kind == "keyword" else quote(name)
        if fold(name).startswith(prefix) and shape not in seen:
            seen.add(shape)
            result.append(Candidate(shape, len(word), kind))
    return result


def _blank(hidden: re.Match[str]) -> str:
    """A closed string or comment becomes a blank; a line comment at the cursor stays open."""
    at_cursor = hidden[0].startswith("--") and hidden.end() == len(hidden.string)
    return "/*" if at_cursor else " "


def _inside_hidden(shown: str) -> bool:
    """Whether the cursor is in a string or a comment that has not been closed."""
    bare = re.sub(r"`(?:[^`]|``)*`", " ", shown)
    return "'" in bare or '"' in bare or "/*" in bare


def _wants_relation(tokens: Sequence[str]) -> bool:
    words = [fold(token) for token in tokens]
    if words[-2:] == ["subscribe", "to"]:
        return True
    if not words:
        return False
    if words[-1] in _BEFORE_RELATION:
        return True
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


def _lookup(path: str, objects: Sequence[ObjectInfo]) -> ObjectInfo | None:
    parts = [fold(part) for part in _parts(path)]
    for item in objects:
        full = [fold(item.schema), fold(item.name)]
        if parts == full or parts == full[1:]:
            return item
    return None


def _relations(tokens: Sequence[str], objects: Sequence[ObjectInfo]) -> dict[str, ObjectInfo]:
    """The relations the text names, by alias and by name."""
    named: dict[str, ObjectInfo] = {}
    for at, token in enumerate(tokens):
        if not re.fullmatch(_PART + rf"(?:\.{_PART})*", token):
            continue
        if not _wants_relation(tokens[:at]):
            continue
        item = _lookup(token, objects)
        if item is None:
            continue
        named[fold(item.name)] = item
        rest = [t for t in tokens[at + 1 : at + 3] if fold(t) != "as"]
        if rest and re.fullmatch(_PART, rest[0]) and fold(rest[0]) not in _NOT_AN_ALIAS:
            named[fold(unquote(rest[0]))] = item
    return named


def _complete_qualified(
    qualifier: str,
    relations: dict[str, ObjectInfo],
    objects: Sequence[ObjectInfo],
    *,
    only_objects: bool,
) -> Iterator[tuple[str, str]]:
    last = fold(_parts(qualifier)[-1]) if _parts(qualifier) else ""
    if not only_objects:
        item = relations.get(last) or _lookup(qualifier, objects)
        if item is not None:
            yield from ((column, "column") for column in item.columns)
            return
    yield from ((o.name, o.kind) for o in objects if fold(o.schema) == last)


def _names(objects: Sequence[ObjectInfo]) -> Iterator[tuple[str, str]]:
    yield from ((o.name, o.kind) for o in objects if fold(o.schema) == DEFAULT_SCHEMA)
    schemas = sorted({o.schema for o in objects if fold(o.schema) != DEFAULT_SCHEMA})
    yield from ((schema, "schema") for schema in schemas)


def _columns(relations: dict[str, ObjectInfo]) -> Iterator[tuple[str, str]]:
    for item in relations.values():
        yield from ((column, "column") for column in item.columns)


def _anything(word: str, relations: dict[str, ObjectInfo]) -> Iterator[tuple[str, str]]:
    yield from _columns(relations)
    lower = word.islower()
    for keyword in sorted(KEYWORDS):
        yield (keyword.lower() if lower else keyword), "keyword"
