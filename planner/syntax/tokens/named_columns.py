"""Which columns of a relation a definition names. Pure.

The text is read as words, not as a query: a name that also means something else counts, so there
may be too many and never too few. A star, NATURAL and TABLE name all.
"""

from collections.abc import Sequence

from ctsql.catalog.names import fold
from ctsql.catalog.spans import Source
from ctsql.planner.syntax.tokens.tokenizer import tokenise

_BEFORE_STAR = {"SELECT", "DISTINCT", "ALL", "SET", "INSERT", ",", "."}
_NAME_ALL = {"NATURAL", "TABLE"}


def named_columns(definition: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of a relation's columns that a definition names, in their order.

    >>> named_columns("CREATE VIEW v AS SELECT A * 2 AS x, count(*) FROM t", ["a", "b"])
    ('a',)
    >>> named_columns("CREATE VIEW v AS SELECT * FROM t", ["a", "b"])
    ('a', 'b')
    """
    tokens = tokenise(Source(definition, "").whole())
    words = ["", "", *(token.upper for token in tokens)]
    for before, last, word in zip(words, words[1:], words[2:], strict=False):
        is_star = word == "*" and (last in _BEFORE_STAR or (last == "(" and before != "COUNT"))
        if is_star or word in _NAME_ALL:
            return tuple(columns)
    names = {fold(token.text) for token in tokens if token.is_name}
    return tuple(c for c in columns if fold(c) in names)
