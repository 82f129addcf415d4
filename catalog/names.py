"""Names of objects: parts, quoting, qualification and near misses.

Case follows Spark: names are kept as they were typed and compared without regard to case.
"""

import difflib
import itertools
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass

from ctsql.catalog.errors import error
from ctsql.catalog.spans import Span

DEFAULT_SCHEMA = "default"
NAME_CHARACTERS_MAX = 255
OWN_FOLDERS = ("_ctsql", "_delta_log")
"""The names of ctsql's and Delta's own folders, in any warehouse or table."""
_FOLDER_CHARACTERS_MAX = 128

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_TEXT = """
    ALL ALTER AND ANTI ANY AS BETWEEN CASE CAST CONSTRAINT CREATE CROSS DELETE DESCRIBE DISTINCT
    DROP ELSE END EXCEPT EXISTS FALSE FETCH FOR FROM FULL FUNCTION GRANT GROUP HAVING IF ILIKE IN
    INNER INSERT INTERSECT INTO IS JOIN LATERAL LEFT LIKE LIMIT MAP MERGE MINUS NATURAL NOT NULL ON
    OR ORDER OUTER PIVOT QUALIFY RIGHT RLIKE ROLLBACK SELECT SEMI SET TABLE TABLESAMPLE THEN TRUE
    UNION UNPIVOT UPDATE USING VALUES WHEN WHERE WINDOW WITH
"""
_RESERVED = frozenset(_RESERVED_TEXT.split())
"""Words that, without backticks, are keywords of some statement."""


def quote(part: str) -> str:
    """An identifier as it must be typed: bare if possible, else in backticks.

    >>> quote("plain"), quote("odd name"), quote("select")
    ('plain', '`odd name`', '`select`')
    """
    is_bare = _PLAIN.fullmatch(part) and part.upper() not in _RESERVED
    return part if is_bare else backtick(part)


def backtick(part: str) -> str:
    """An identifier in backticks, which a reserved word needs in Spark."""
    return "`" + part.replace("`", "``") + "`"


def table_at(location: str) -> str:
    """The name in Spark's SQL of the Delta table at a location.

    >>> table_at("file:/w/t"), table_at("file:/w`x/t")
    ('delta.`file:/w/t`', 'delta.`file:/w``x/t`')
    """
    return f"delta.{backtick(location)}"


def backtick_all(parts: Iterable[str]) -> list[str]:
    """Identifiers in backticks: column names as Spark's ``select`` must be given them."""
    return [backtick(part) for part in parts]


def unquote(part: str) -> str:
    """An identifier without its backticks, if it has any.

    >>> unquote("`one``two`"), unquote("plain")
    ('one`two', 'plain')
    """
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


def fold(part: str) -> str:
    """Fold a name for comparison: equal for names that differ in case only."""
    return part.lower()


@dataclass(frozen=True, slots=True)
class Name:
    """A qualified name, ``schema.name``; equality ignores case."""

    schema: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """The key by which the name is compared and looked up."""
        return fold(self.schema), fold(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        if fold(self.schema) == DEFAULT_SCHEMA:
            return quote(self.name)
        return f"{quote(self.schema)}.{quote(self.name)}"

    def qualified(self) -> str:
        """``schema.name`` in full, quoted where needed."""
        return f"{quote(self.schema)}.{quote(self.name)}"


def quarantine_name(owner: Name) -> Name:
    """The name of a new quarantine of a task or view.

    >>> str(quarantine_name(Name("shop", "orders")))
    'shop.orders_quarantine'
    """
    return Name(owner.schema, f"{owner.name}_quarantine")


def check_new_name(name: str, span: Span) -> None:
    """Refuse a new name that is empty or longer than ``NAME_CHARACTERS_MAX``: INVALID_NAME."""
    if not name:
        raise error("INVALID_NAME", span=span, name=name, detail="It is empty.")
    if len(name) > NAME_CHARACTERS_MAX:
        detail = f"It has {len(name)} characters; a name has at most {NAME_CHARACTERS_MAX}."
        raise error("INVALID_NAME", span=span, name=f"{name[:40]}...", detail=detail)


def check_new_schema(name: str, span: Span) -> None:
    """Refuse a new schema by its name, or by the name of its folder: INVALID_NAME."""
    check_new_name(name, span)
    if folder_part(name).lower() in OWN_FOLDERS:
        detail = "ctsql or Delta uses a folder of this name."
        raise error("INVALID_NAME", span=span, name=name, detail=detail)


def folder_part(name: str) -> str:
    """The folder's name for an object's name, with characters and a length that all stores allow.

    >>> folder_part("odd name"), len(folder_part("x" * 255))
    ('odd_name', 128)
    """
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:_FOLDER_CHARACTERS_MAX]


def free_name(name: str, names_in_use: Container[str]) -> str:
    """The name, or the first of name_2, name_3 ..., that is not among some folded names.

    >>> free_name("A", {"a", "a_2"})
    'A_3'
    """
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(n for n in itertools.chain([name], numbered) if fold(n) not in names_in_use)


def near(name: str, candidates: Iterable[str]) -> list[str]:
    """Up to three of some names that look like one, nearest first."""
    by_fold = {fold(k): k for k in candidates}
    matches = difflib.get_close_matches(fold(name), list(by_fold), n=3, cutoff=0.6)
    return [by_fold[f] for f in matches]


def did_you_mean(name: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """A hint naming near misses, or ``otherwise`` when nothing is near."""
    names = near(name, candidates)
    if not names:
        return otherwise
    return "Did you mean " + " or ".join(f'"{n}"' for n in names) + "?"
