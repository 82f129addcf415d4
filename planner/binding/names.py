"""Names of relations, and definitions as text."""

from ctsql.catalog.items import Item
from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax.statements import RelationRef


def qualify(ref: RelationRef, search_schema: str) -> Name:
    """The name a reference means, given the schema for unqualified names."""
    if len(ref.parts) == 1:
        return Name(search_schema, ref.parts[0])
    return Name(ref.parts[0], ref.parts[1])


def definition_span(item: Item) -> Span:
    """A stored definition as text to parse; errors name the object."""
    return Source(item.definition, f"definition of {item.name}").whole()
