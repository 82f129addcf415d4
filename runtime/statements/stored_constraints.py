"""Constraints of a table as its log has them: CHECKs of Delta's protocol. Pure.

A CHECK of Delta is broken by NULL, one of SQL is not: so what is written is
``(condition) IS NOT FALSE``.

Source: the Delta protocol, "CHECK constraints".
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from ctsql.catalog.names import fold
from ctsql.catalog.spans import Source
from ctsql.planner.binding.constraints import check_text
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens.tokenizer import tokenise, words_of

_PROPERTY = "delta.constraints."
_OURS = re.compile(r"\((.*)\) IS NOT FALSE", re.DOTALL)


def stored_constraints(configuration: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The names and rules of a table's CHECKs, whoever made them, by its properties. Pure.

    >>> list(stored_constraints({"delta.constraints.c": "(v > 0) IS NOT FALSE", "other": "1"}))
    [('c', 'CHECK (v > 0)')]
    """
    for key, text in sorted(configuration.items()):
        if key.startswith(_PROPERTY):
            ours = _OURS.fullmatch(text)
            yield (
                key.removeprefix(_PROPERTY),
                f"CHECK ({_plain(text if ours is None else ours[1])})",
            )


def _plain(text: str) -> str:
    """A condition as people write it: Delta keeps its words with a blank between any two.

    >>> _plain("f ( a , 'x ) y' ) > 0")
    "f(a, 'x ) y') > 0"
    """
    words = [token.span.text for token in tokenise(Source(text, "constraint").whole())]
    made = ""
    for before, word in zip(["(", *words], words, strict=False):
        is_call = word == "(" and before.isidentifier() and before.upper() not in _BEFORE
        apart = before not in ("(", ".") and word not in (")", ",", ".") and not is_call
        made += f" {word}" if apart else word
    return made


_BEFORE = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "WHEN", "THEN", "ELSE", "CASE")


def says_constraints(made: Sequence[st.ConstraintDef], configuration: Mapping[str, str]) -> bool:
    """Whether constraints are all that a table has, or none are said. Pure."""
    wanted = {f"{_PROPERTY}{fold(c.name)}": _words(check_text(c)) for c in made}
    there = {fold(k): _words(v) for k, v in configuration.items() if k.startswith(_PROPERTY)}
    return not wanted or wanted == there


def _words(text: str) -> list[str]:
    return words_of(Source(text, "constraint").whole())
