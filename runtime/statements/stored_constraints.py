"""Constraints of a table as its log has them, in two kinds. Pure.

CHECK and NOT NULL that refuse are CHECKs of Delta's protocol, which every writer keeps. A CHECK of
Delta is broken by NULL, one of SQL is not: so what is written is ``(condition) IS NOT FALSE``.

All others are properties of ours, which ctsql's own statements keep
(:mod:`ctsql.runtime.statements.kept_constraints`). They are in the table's metadata, so they change
with a commit of the table, and a statement that has not seen one cannot commit after it.

Source: the Delta protocol, "CHECK constraints".
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctsql.catalog.errors import CtsqlError, error, not_readable
from ctsql.catalog.items import Catalog, Item
from ctsql.catalog.names import did_you_mean, fold, quote
from ctsql.catalog.spans import Source
from ctsql.planner.binding.constraints import check_text
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.constraints import constraint_of, constraint_text
from ctsql.planner.syntax.tokens.tokenizer import tokenise, words_of
from ctsql.runtime.log.table_metadata import KEPT

_PROPERTY = "delta.constraints."
_OURS = re.compile(r"\((.*)\) IS NOT FALSE", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoredConstraint:
    """A constraint of a table.

    Attributes:
        key: its property. rule: what it asks for, as SQL.
        definition: as it was typed, of one that ctsql keeps; None for a CHECK of Delta.
        refers: the id of the object that a REFERENCES is about.
    """

    name: str
    key: str
    rule: str
    action: st.OnViolation = st.OnViolation.FAIL
    definition: st.ConstraintDef | None = None
    refers: str | None = None

    @property
    def text(self) -> str:
        """As a column list and ALTER TABLE have it."""
        if self.definition is None:
            return f"CONSTRAINT {quote(self.name)} {self.rule}"
        return constraint_text(self.definition)


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


def stored_constraints(
    configuration: Mapping[str, str], name_of: Callable[[str], str | None] = lambda _: None
) -> Iterator[StoredConstraint]:
    """The constraints of a table, whoever made them, by its properties. Pure.

    Args:
        name_of: the name that the object of an id has now; None where there is none.

    Raises STORED_DATA_INVALID.

    >>> found = stored_constraints({"delta.constraints.c": "(v > 0) IS NOT FALSE", "other": "1"})
    >>> [one.text for one in found]
    ['CONSTRAINT c CHECK (v > 0)']
    """
    for key, text in sorted(configuration.items()):
        if key.startswith(_PROPERTY):
            ours = _OURS.fullmatch(text)
            rule = f"CHECK ({_plain(text if ours is None else ours[1])})"
            yield StoredConstraint(key.removeprefix(_PROPERTY), key, rule)
    yield from kept_constraints(configuration, name_of)


def names_of(catalog: Catalog) -> Callable[[str], str | None]:
    """What gives the name that the object of an id has now; None where there is none."""

    def name_of(object_id: str) -> str | None:
        item = catalog.items.get(object_id)
        return None if item is None else item.name.qualified()

    return name_of


def kept_constraints(
    configuration: Mapping[str, str], name_of: Callable[[str], str | None] = lambda _: None
) -> list[StoredConstraint]:
    """The constraints that only ctsql keeps, in the order in which they were made. Pure."""
    pairs = []
    for key, text in configuration.items():
        if key.startswith(KEPT):
            pairs.append(_read_property(key, text, name_of))
    return [one for _, one in sorted(pairs, key=lambda pair: (pair[0], pair[1].key))]


def _read_property(
    key: str, text: str, name_of: Callable[[str], str | None]
) -> tuple[int, StoredConstraint]:
    try:
        raw = json.loads(text)
        refers = None if raw["refers"] is None else str(raw["refers"])
        before, after = (str(raw[part]) for part in ("before", "after"))
        number, other = int(raw["number"]), str(raw["other"])
    except (ValueError, KeyError, TypeError) as problem:
        what, hint = f"the table's property {key}", "Drop the constraint and add it again."
        raise not_readable(what, problem, hint) from problem
    if refers is not None:
        other = name_of(refers) or other
    definition = constraint_of(f"{before}{other}{after}")
    return number, StoredConstraint(
        definition.name, key, definition.rule, definition.action, definition, refers
    )


def property_of(
    definition: st.ConstraintDef, configuration: Mapping[str, str], refers: tuple[str, str] | None
) -> tuple[str, str]:
    """The property of a constraint that only ctsql keeps, and its value. Pure.

    Args:
        configuration: of the table before. refers: the id and the name of what it refers to.
    """
    columns = ", ".join(map(quote, definition.columns))
    head = f"CONSTRAINT {quote(definition.name)} "
    fate = f" ON VIOLATION {definition.action.value}"
    if definition.references is not None:
        before = f"{head}FOREIGN KEY ({columns}) REFERENCES "
        after = f" ({', '.join(map(quote, definition.keys))}){fate}"
    elif definition.predicate is not None:
        before, after = f"{head}CHECK (", f"{definition.predicate.span.text}\n){fate}"
    else:
        rule = "UNIQUE" if definition.unique else "NOT NULL"
        before, after = f"{head}{rule} (", f"{columns}){fate}"
    object_id, other = refers or (None, "")
    numbers = [json.loads(v)["number"] for k, v in configuration.items() if k.startswith(KEPT)]
    value = {
        "number": max(numbers, default=0) + 1,
        "before": before,
        "other": other,
        "after": after,
        "refers": object_id,
    }
    return KEPT + fold(definition.name), json.dumps(value)


def property_of_delta(name: str, text: str) -> tuple[str, str]:
    """The property of a CHECK of Delta, and its value."""
    return _PROPERTY + fold(name), text


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
    definitions: Sequence[st.ConstraintDef],
    configuration: Mapping[str, str],
    id_of: Callable[[st.RelationRef], str | None],
) -> list[str]:
    """What ALTER TABLE is to say so that a table has these constraints and no other. Pure.

    Nothing where none are said.

    Args:
        id_of: the id of what a constraint refers to.
    """
    if not definitions:
        return []
    meanings = {
        fold(c.name): _words(check_text(c))
        if c.is_of_delta
        else _meaning(c, None if c.references is None else id_of(c.references))
        for c in definitions
    }
    constraints = list(stored_constraints(configuration))
    there = {
        fold(s.name): _words(configuration[s.key])
        if s.definition is None
        else _meaning(s.definition, s.refers)
        for s in constraints
    }
    drops = [s.name for s in constraints if meanings.get(fold(s.name)) != there[fold(s.name)]]
    additions = [c for c in definitions if there.get(fold(c.name)) != meanings[fold(c.name)]]
    return [
        *(f"DROP CONSTRAINT {quote(name)}" for name in drops),
        *(f"ADD {constraint_text(c)}" for c in additions),
    ]


def unsaid_constraints(
    statements: Iterable[st.Statement],
    configuration: Mapping[str, str],
    name_of: Callable[[str], str | None] = lambda _: None,
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
    there = {fold(s.name): s for s in stored_constraints(configuration, name_of)}
    return [
        *(f"DROP CONSTRAINT {quote(name)}" for key, name in names.items() if key not in there),
        *(f"ADD {one.text}" for key, one in there.items() if key not in names),
    ]


def _meaning(definition: st.ConstraintDef, refers: str | None) -> tuple[object, ...]:
    """What two constraints have in common that mean the same, as texts."""
    check = "" if definition.predicate is None else " ".join(_words(check_text(definition)))
    columns, keys = ([fold(c) for c in names] for names in (definition.columns, definition.keys))
    return (
        fold(definition.name),
        definition.action.value,
        definition.unique,
        check,
        columns,
        keys,
        refers or "",
    )


def _words(text: str) -> list[str]:
    return words_of(Source(text, "constraint").whole())
