"""Names of relations."""

from ctsql.catalog.names import Name
from ctsql.planner.syntax.ast import RelationRef


def qualify(ref: RelationRef, search_schema: str) -> Name:
    """The name a reference means, given the schema for unqualified names."""
    if len(ref.parts) == 1:
        return Name(search_schema, ref.parts[0])
    return Name(ref.parts[0], ref.parts[1])
