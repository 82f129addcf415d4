"""Columns: names, types by name, and functions of lists of columns.

A type is a text in Spark's spelling (``bigint``, ``struct<a:int>``), which the catalog stores and
compares. Names keep their case and are compared without it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ctsql.catalog.errors import error
from ctsql.catalog.names import did_you_mean, fold, quote
from ctsql.catalog.spans import Span

_VARCHAR = re.compile(r"\bvarchar\s*\(\s*\d+\s*\)", re.IGNORECASE)
_CHAR = re.compile(r"char\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_TEXT_TYPE = re.compile(r"\b(?:var)?char(?:acter)?\s*\(\s*\d+\s*\)", re.IGNORECASE)


def plain_type(data_type: str) -> str:
    """The type of a column's values: those of CHAR and VARCHAR are texts.

    >>> plain_type("char(5)"), plain_type("struct<a:VARCHAR(4),b:int>")
    ('string', 'struct<a:string,b:int>')
    """
    return _TEXT_TYPE.sub("string", data_type)


def char_length(data_type: str) -> int | None:
    """The length of a CHAR, to which shorter texts are padded; None for other types.

    >>> char_length("char(5)"), char_length("varchar(5)"), char_length("array<char(5)>")
    (5, None, None)
    """
    match = _CHAR.fullmatch(data_type)
    return None if match is None else int(match[1])


def without_limits(data_type: str) -> str:
    """The type that a view's column gets from one of its query.

    A CHAR stays a CHAR, because its comparison differs from that of other texts. A VARCHAR loses
    its length, which limits writes to a table.

    >>> without_limits("char(5)"), without_limits("struct<a:char(4),b:varchar(3)>")
    ('char(5)', 'struct<a:char(4),b:string>')
    """
    return _VARCHAR.sub("string", data_type)


def quote_text(text: str) -> str:
    """A text as a literal of Spark SQL, whose strings have backslash escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name as typed, its type in Spark's spelling, NOT NULL, its comment."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The column as a JSON value, without defaults."""
        fields: dict[str, Any] = {"name": self.name, "type": self.type}
        if not self.nullable:
            fields["nullable"] = False
        if self.comment is not None:
            fields["comment"] = self.comment
        return fields

    @staticmethod
    def from_json(fields: dict[str, Any]) -> "Column":
        """The column of a :meth:`to_json` value; KeyError, TypeError for another value."""
        return Column(
            fields["name"], fields["type"], fields.get("nullable", True), fields.get("comment")
        )

    def ddl(self) -> str:
        """The column as CREATE TABLE takes it.

        >>> Column("odd name", "int", nullable=False, comment="odd").ddl()
        "`odd name` int NOT NULL COMMENT 'odd'"
        """
        text = f"{quote(self.name)} {self.type}"
        if not self.nullable:
            text += " NOT NULL"
        if self.comment is not None:
            text += f" COMMENT {quote_text(self.comment)}"
        return text


Schema = tuple[Column, ...]

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


def decimal_size(data_type: str) -> tuple[int, int] | None:
    """The digits of a decimal type, and how many of them are a fraction; None for another type.

    >>> decimal_size("DECIMAL(10, 2)"), decimal_size("int")
    ((10, 2), None)
    """
    match = _DECIMAL.fullmatch(data_type.lower())
    return None if match is None else (int(match[1]), int(match[2]))


def names(columns: Iterable[Column]) -> tuple[str, ...]:
    """The columns' names, in order."""
    return tuple(column.name for column in columns)


def same_columns(one: Sequence[Column], other: Sequence[Column], *, nullable: bool = False) -> bool:
    """Whether the same rows fit both lists: names without case, and types, in order.

    ``nullable``: compare NOT NULL, too.

    >>> same_columns([Column("k", "int", nullable=False)], [Column("K", "int")])
    True
    >>> same_columns([Column("k", "int", nullable=False)], [Column("K", "int")], nullable=True)
    False
    """
    is_same = signature(one) == signature(other)
    return is_same and not (nullable and [c.nullable for c in one] != [c.nullable for c in other])


def keeps_columns(old: Sequence[Column], new: Sequence[Column]) -> bool:
    """Whether the new columns begin with the old ones.

    >>> keeps_columns([Column("k", "int")], [Column("k", "int"), Column("v", "int")])
    True
    """
    return same_columns(old, new[: len(old)])


def lacking(columns: Iterable[Column], others: Iterable[Column]) -> list[Column]:
    """The columns that others lack, or have with another type.

    >>> others = [Column("K", "int"), Column("v", "int")]
    >>> [c.name for c in lacking([Column("k", "int"), Column("v", "bigint")], others)]
    ['v']
    """
    there = set(signature(others))
    return [c for c in columns if not there.issuperset(signature([c]))]


def signature(columns: Iterable[Column]) -> list[tuple[str, str]]:
    """Return what rows depend on in columns: names without their case, and types, in order."""
    return [(fold(c.name), c.type) for c in columns]


def find(columns: Iterable[Column], name: str) -> Column | None:
    """The column of that name whatever its case, or None."""
    key = fold(name)
    return next((column for column in columns if fold(column.name) == key), None)


def get(
    columns: Sequence[Column], name: str, *, span: Span | None, heading: str = "The columns are:"
) -> Column:
    """The column of that name in any case; UNKNOWN_COLUMN, whose list follows ``heading``."""
    column = find(columns, name)
    if column is None:
        column_list = ", ".join(map(quote, names(columns)))
        raise error(
            "UNKNOWN_COLUMN",
            span=span,
            column=name,
            detail=f"{heading} {column_list}.",
            hint=did_you_mean(name, names(columns)),
        )
    return column


def check_unique(columns: Sequence[Column], spans: Sequence[Span], hint: str = "") -> Schema:
    """The columns; DUPLICATE_COLUMN for names equal in any case. ``spans``: the last repeats."""
    keys: set[str] = set()
    for index, column in enumerate(columns):
        key = fold(column.name)
        if key in keys:
            span = spans[min(index, len(spans) - 1)] if spans else None
            raise error("DUPLICATE_COLUMN", span=span, column=column.name, hint=hint)
        keys.add(key)
    return tuple(columns)


def shown_columns(columns: Sequence[Column]) -> str:
    """Columns with their types, for messages and plans."""
    return ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in columns)


def changes_between(there: Sequence[Column], new_columns: Sequence[Column]) -> list[str]:
    """The ALTER TABLE actions that give a table other columns; none for the same columns.

    A removed and an added column of one type are a rename: a drop would lose the values.

    >>> changes_between([Column("a", "int")], [Column("b", "int"), Column("c", "date")])
    ['RENAME COLUMN a TO b', 'ADD COLUMN c date']
    """
    before_of, going = _counterparts(there, new_columns)
    texts = []
    for column, before in before_of:
        name = quote(column.name)
        if before is None:
            before = replace(column, comment=None, nullable=True)
            texts.append(f"ADD COLUMN {before.ddl()}")
        elif fold(before.name) != fold(column.name):
            texts.append(f"RENAME COLUMN {quote(before.name)} TO {name}")
        elif before.type != column.type:
            texts.append(f"ALTER COLUMN {name} TYPE {column.type}")
        if before.nullable != column.nullable:
            verb = "DROP" if column.nullable else "SET"
            texts.append(f"ALTER COLUMN {name} {verb} NOT NULL")
    return [*texts, *(f"DROP COLUMN {quote(c.name)}" for c in going)]


def commented(catalog_columns: Sequence[Column], there: Sequence[Column]) -> Schema:
    """The columns of a table with the comments of the catalog; a renamed column keeps its comment.

    >>> [c.comment for c in commented([Column("a", "int", comment="x")], [Column("b", "int")])]
    ['x']
    """
    pairs, _ = _counterparts(catalog_columns, there)
    return tuple(c if k is None else replace(c, comment=k.comment) for c, k in pairs)


def _counterparts(
    there: Sequence[Column], new_columns: Sequence[Column]
) -> tuple[list[tuple[Column, Column | None]], list[Column]]:
    """Each new column with its earlier column, None for an added one; and the removed columns."""
    old = {fold(c.name): c for c in there}
    new = {fold(c.name) for c in new_columns}
    going = [c for key, c in old.items() if key not in new]
    pairs: list[tuple[Column, Column | None]] = []
    for column in new_columns:
        before = old.get(fold(column.name))
        if before is None:
            before = next((c for c in going if c.type == column.type), None)
            if before is not None:
                going.remove(before)
        pairs.append((column, before))
    return pairs, going
