"""Stored definitions as statements, and the errors of unreadable ones.

If a definition was written by a newer version of ctsql, or is damaged, its object and dependent
objects fail by name; everything else continues.

[words-of-time] a definition with a schedule, COALESCE, TRIM EVERY or now() has one of
    ``WORDS_OF_TIME`` in its text, or in that of a plain view in it. So a process need not bind all
    definitions before its first statement.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import with_plain_views
from ctsql.catalog.errors import CtsqlError, error, sentence_of
from ctsql.catalog.items import Item
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import parse
from ctsql.planner.syntax.ast import Statement
from ctsql.planner.syntax.tokens.replaceable_calls import CLOCKS

DEFINITIONS_CACHED_MAX = 4_096


def definition_span(item: Item) -> Span:
    """A stored definition as text to parse; errors name the object."""
    return Source(item.definition.text, f"definition of {item.name}").whole()


def definition_of(item: Item) -> Statement:
    """The statement that made an object; raises as :func:`parse` does."""
    return _parse(definition_span(item))


# Each change of the catalog binds all definitions again; reading them is most of that.
_parse = lru_cache(maxsize=DEFINITIONS_CACHED_MAX)(parse)


@contextmanager
def reading_definition(item: Item) -> Iterator[None]:
    """Turn an error inside into STORED_DATA_INVALID, which names the object of the definition."""
    try:
        yield
    except CtsqlError as problem:
        if problem.condition == "STORED_DATA_INVALID":
            raise  # the error already names an object: this one, or one that it reads
        what = f'the definition of {item.kind.value} "{item.name}"'
        hint = (
            "Use the version of ctsql that wrote it, or drop the object and create it again: "
            f"DROP {item.kind.keyword} {item.name}"
        )
        raise error(
            "STORED_DATA_INVALID", what=what, detail=sentence_of(problem), hint=hint, cause=problem
        ) from problem


def is_no_definition(item: Item) -> CtsqlError:
    """STORED_DATA_INVALID for a definition of another object; the caller raises it."""
    what = f'the definition of {item.kind.value} "{item.name}"'
    detail = "It is not a statement that creates such an object."
    hint = f"Drop the object and create it again: DROP {item.kind.keyword} {item.name}"
    return error("STORED_DATA_INVALID", what=what, detail=detail, hint=hint)


WORDS_OF_TIME = ("REFRESH", "SCHEDULE", "TARGET_LAG", "COALESCE", "TRIM", *CLOCKS)
"""Options of ours, the clauses that are read as such, and the functions of the clock."""


def may_wait(catalog: Catalog, item: Item) -> bool:
    """Whether, by its text alone, a definition may become due without a change of its inputs."""
    if any(revision.copies_rows for revision in item.revisions):
        return True  # it reads the existing rows, at the T of its cutover
    texts = [d.text for d in item.revisions]
    texts += [i.definition.text for i in with_plain_views(catalog, item)]
    # As the tokens of a text have their words.
    return any(word in text for text in map(str.upper, texts) for word in WORDS_OF_TIME)
