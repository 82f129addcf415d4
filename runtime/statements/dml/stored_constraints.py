"""Constraints of a table as its log has them. Pure.

They are CHECKs of Delta's protocol, which every writer enforces; NOT NULL of a column is part of
the column. NULL breaks a CHECK of Delta, but none of SQL: so ``(condition) IS NOT FALSE`` is
written.

Source: the Delta protocol, "CHECK constraints".
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.catalog.names import did_you_mean, fold, quote
from ctsql.catalog.spans import Source
from ctsql.planner.binding.constraints import check_text
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.constraints import constraint_text
from ctsql.planner.syntax.tokens.tokenizer import tokenise, words_of
from ctsql.runtime.log.table_metadata import TableMetadata

_PROPERTY = "delta.constraints."
_OURS = re.compile(r"\((.*)\) IS NOT FALSE", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoredConstraint:
    """A constraint of a table.

    Attributes:
        key: its property. rule: what it asks for, as SQL.
    """

    name: str
    key: str
    rule: str

    @property
    def text(self) -> str:
        """As a column list and ALTER TABLE have it."""
        return f"CONSTRAINT {quote(self.name)} {self.rule}"


def unknown_constraint(
    item: Item, change: st.ChangeConstraints, there: Iterable[str]
) -> CtsqlError:
    """UNKNOWN_CONSTRAINT for one that is to be dropped; the caller raises it.

    Args:
        there: the names of those that are there.
    """
    return error(
        "UNKNOWN_CONSTRAINT",
        span=change.dropped_span,
        name=change.dropped_name,
        relation=str(item.name),
        hint=did_you_mean(change.dropped_name, there, otherwise="SHOW CONSTRAINTS lists them."),
    )


def stored_constraints(configuration: Mapping[str, str]) -> Iterator[StoredConstraint]:
    """The constraints of a table, by its properties, made by any writer. Pure.

    >>> found = stored_constraints({"delta.constraints.c": "(v > 0) IS NOT FALSE", "other": "1"})
    >>> [one.text for one in found]
    ['CONSTRAINT c CHECK (v > 0)']
    """
    for key, text in sorted(configuration.items()):
        if key.startswith(_PROPERTY):
            ours = _OURS.fullmatch(text)
            rule = f"CHECK ({_plain(text if ours is None else ours[1])})"
            yield StoredConstraint(key.removeprefix(_PROPERTY), key, rule)


def constraint_rules(metadata: TableMetadata) -> Iterator[str]:
    """What each row of a table must keep, as texts: its CHECKs, and NOT NULL of its columns."""
    yield from (one.text for one in stored_constraints(metadata.configuration))
    yield from (f"NOT NULL ({c.name})" for c in metadata.columns.values() if c.is_not_null)


def _plain(text: str) -> str:
    """A condition as people write it: Delta keeps its words with a blank between any two.

    >>> _plain("f ( a , 'x ) y' ) > 0")
    "f(a, 'x ) y') > 0"
    """
    words = [token.span.text for token in tokenise(Source(text, "constraint").whole())]
    plain_text = ""
    for before, word in zip(["(", *words], words, strict=False):
        is_call = word == "(" and before.isidentifier() and before.upper() not in _BEFORE
        apart = before not in ("(", ".") and word not in (")", ",", ".") and not is_call
        plain_text += f" {word}" if apart else word
    return plain_text


_BEFORE = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "WHEN", "THEN", "ELSE", "CASE")


def constraint_changes(
    definitions: Sequence[st.ConstraintDef], configuration: Mapping[str, str]
) -> list[str]:
    """The ALTER TABLE actions that give a table these constraints and no others. Pure.

    None if the definitions are empty. Conditions are compared by their words.
    """
    if not definitions:
        return []
    wanted = {fold(c.name): _words(check_text(c)) for c in definitions}
    constraints = list(stored_constraints(configuration))
    there = {fold(s.name): _words(configuration[s.key]) for s in constraints}
    drops = [s.name for s in constraints if wanted.get(fold(s.name)) != there[fold(s.name)]]
    additions = [c for c in definitions if there.get(fold(c.name)) != wanted[fold(c.name)]]
    return [
        *(f"DROP CONSTRAINT {quote(name)}" for name in drops),
        *(f"ADD {constraint_text(c)}" for c in additions),
    ]


def unsaid_constraints(
    statements: Iterable[st.Statement], configuration: Mapping[str, str]
) -> list[str]:
    """What ALTER TABLE is to say after some statements, so that a table has its constraints. Pure.

    Args:
        statements: its CREATE TABLE, and what ALTER TABLE has changed since.
    """
    names: dict[str, str] = {}
    for statement in statements:
        match statement:
            case st.CreateTable():
                names |= {fold(c.name): c.name for c in statement.constraints}
            case st.ChangeConstraints(new_constraint=st.ConstraintDef() as constraint):
                names[fold(constraint.name)] = constraint.name
            case st.ChangeConstraints():
                names.pop(fold(statement.dropped_name), None)
    there = {fold(s.name): s for s in stored_constraints(configuration)}
    return [
        *(f"DROP CONSTRAINT {quote(name)}" for key, name in names.items() if key not in there),
        *(f"ADD {one.text}" for key, one in there.items() if key not in names),
    ]


def _words(text: str) -> list[str]:
    return words_of(Source(text, "constraint").whole())
