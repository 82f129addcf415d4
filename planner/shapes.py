"""The shape of a plan: equal for plans that differ only in the names of objects.

Spark's plan is the same for all plans of a shape over relations with the same columns. The shape is
the plan as nested tuples, where

- an object is its number, in the order of the plan;
- names of objects, which are in messages only, are left out;
- a text is Spark's, with numbers in place of its relations. The name of a relation without an alias
  is kept if the rest of the text may mention it.

A shape has no place in the user's text: code that shares the result of a plan must rebuild the
error for the other plan.
"""

import dataclasses
import re
from collections.abc import Hashable, Sequence
from enum import Enum

from ctsql.catalog.names import Name, fold
from ctsql.planner.nodes import External
from ctsql.planner.syntax import splice
from ctsql.planner.syntax.ast import Edit, SqlText

_MARK = "\0"  # a character that no text for Spark has


class Shapes:
    """Shapes of plans that belong together; ``objects`` has the ids by their numbers."""

    def __init__(self, objects: Sequence[str] = ()) -> None:
        """Begin with some objects, which have the first numbers."""
        self.objects = list(objects)

    def of(self, value: object) -> Hashable:
        """The shape of a node, or of its parts; raises TypeError for other relations."""
        match value:
            case SqlText():
                return self._text(value)
            case Name():
                return None
            case External():
                raise TypeError("what is read outside of the catalog has no shape")
            case None | str() | int() | Enum():
                return value
            case tuple() | list():
                return tuple(map(self.of, value))
        if not dataclasses.is_dataclass(value):
            raise TypeError(f"{type(value).__name__} has no shape")
        fields = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return (
            type(value).__name__,
            *(self.number(v) if name == "object_id" else self.of(v) for name, v in fields),
        )

    def number(self, object_id: str) -> int:
        """The number of an object."""
        if object_id not in self.objects:
            self.objects.append(object_id)
        return self.objects.index(object_id)

    @staticmethod
    def _text(sql: SqlText) -> Hashable:
        edits = list(sql.edits)
        for ref in sql.relations:
            edits.append(Edit(span=ref.span, text=_MARK))
        text = splice(sql.span, edits).text
        return text, tuple(_alias(ref.shown_name, ref.aliased, text) for ref in sql.relations)


def _alias(name: str, is_aliased: bool, text: str) -> str | None:
    """The alias that we add to the text, if the rest may mention it: in a hint, or in backticks."""
    if is_aliased:
        return None
    is_mentioned = re.search(rf"(?<!\w){re.escape(fold(name))}(?!\w)", fold(text))
    return name if is_mentioned or "`" in name else None
