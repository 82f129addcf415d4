"""Which definitions may say that something is due at a time, whatever moves. Pure.

Told from the stored text alone: to bind all definitions of a warehouse is most of the time of a
process's first statement, and nearly none has such a word.

[words-of-time] a definition with a schedule, with COALESCE or TRIM EVERY, or over the clock has one
    of these words in its text, or in that of a plain view in it. Most texts with one say nothing of
    a time; they are bound to see.
"""

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import with_plain_views
from ctsql.catalog.items import Item
from ctsql.planner.syntax.tokens.replaceable_calls import CLOCKS

WORDS_OF_TIME = ("REFRESH", "SCHEDULE", "TARGET_LAG", "COALESCE", "TRIM", *CLOCKS)
"""Options of ours, the clauses that are read as such, and the functions of the clock."""


def may_wait(catalog: Catalog, item: Item) -> bool:
    """May there be something to do for a task or a view although nothing that it reads moves?"""
    if any(revision.once for revision in item.revisions):
        return True  # it takes in what is there, at the T from which it is in force
    texts = [d.text for d in item.revisions]
    texts += [i.definition.text for i in with_plain_views(catalog, item)]
    # As the tokens of a text have their words.
    return any(word in text for text in map(str.upper, texts) for word in WORDS_OF_TIME)
