"""Defaults and constraints of a table as in its log, and how they differ from definitions. Pure.

Constraints are CHECKs of Delta's protocol, which every writer enforces; NOT NULL is part of the
column. NULL breaks a CHECK of Delta, but none of SQL: so ``(condition) IS NOT FALSE`` is written.

Source: the Delta protocol, "CHECK constraints", "Default Columns".
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item
from ctsql.catalog.names import did_you_mean, fold, quote
from ctsql.catalog.spans import Source
from ctsql.planner.binding.constraints import check_text
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.syntax.statements.constraints import constraint_text
from ctsql.planner.syntax.tokens.tokenizer import tokenise, words_of
from ctsql.runtime.log.table_metadata import CURRENT_DEFAULT, TableMetadata

_PROPERTY = "delta.constraints."
_OURS = re.compile(r"\((.*)\) IS NOT FALSE", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoredConstraint:
    """A constraint of a table; ``key`` is its property, ``rule`` is SQL."""

    name: str
    key: str
    rule: str

    @property
    def text(self) -> str:
        """As in a column list and ALTER TABLE."""
        return f"CONSTRAINT {quote(self.name)} {self.rule}"


def unknown_constraint(
    item: Item, change: st.ChangeConstraints, there: Iterable[str]
) -> CtsqlError:
    """UNKNOWN_CONSTRAINT for DROP; ``there`` are the existing names; the caller raises it."""
    return error(
        "UNKNOWN_CONSTRAINT",
        span=change.dropped_span,
        name=change.dropped_name,
        relation=str(item.name),
        hint=did_you_mean(change.dropped_name, there, otherwise="SHOW CONSTRAINTS lists them."),
    )


def stored_constraints(configuration: Mapping[str, str]) -> Iterator[StoredConstraint]:
    """The constraints of a table, by its properties, from any writer.

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
    """The rules for each row of a table, as texts: its CHECKs, and NOT NULL."""
    yield from (one.text for one in stored_constraints(metadata.configuration))
    yield from (f"NOT NULL ({c.name})" for c in metadata.columns.values() if c.is_not_null)


def _plain(text: str) -> str:
    """A condition as people write it: Delta stores its words with blanks in between.

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
    """The ALTER TABLE actions that give a table exactly these constraints, compared by words."""
    wanted = {fold(c.name): _words(check_text(c)) for c in definitions}
    constraints = list(stored_constraints(configuration))
    there = {fold(s.name): _words(configuration[s.key]) for s in constraints}
    drops = [s.name for s in constraints if wanted.get(fold(s.name)) != there[fold(s.name)]]
    additions = [c for c in definitions if there.get(fold(c.name)) != wanted[fold(c.name)]]
    return [
        *(f"DROP CONSTRAINT {quote(name)}" for name in drops),
        *(f"ADD {constraint_text(c)}" for c in additions),
    ]


def _words(text: str) -> list[str]:
    return words_of(Source(text, "definition").whole())


def stored_default(metadata: TableMetadata, column: str) -> str | None:
    """The DEFAULT of a column in the log; None for none."""
    default = (metadata.columns[fold(column)].field.get("metadata") or {}).get(CURRENT_DEFAULT)
    return None if default is None else str(default)


def default_changes(columns: Iterable[st.ColumnDef], metadata: TableMetadata) -> list[str]:
    """The ALTER TABLE actions that give a table the defaults of a column list, by their words."""
    texts = []
    for column in columns:
        is_there = fold(column.name) in metadata.columns
        before = stored_default(metadata, column.name) if is_there else None
        start = f"ALTER COLUMN {quote(column.name)}"
        if column.default is not None:
            value = splice(column.default.span, column.default.edits).text
            if before is None or _words(before) != _words(value):
                texts.append(f"{start} SET DEFAULT {value}")
        elif before is not None:
            texts.append(f"{start} DROP DEFAULT")
    return texts
