"""What DROP ... CASCADE takes with it, which the shell lists before it asks."""

from typing import TYPE_CHECKING

from ctsql.catalog.errors import Error
from ctsql.catalog.spans import Span
from ctsql.planner.syntax import ast as st, parse
from ctsql.planner.syntax.tokens.tokenizer import tokenise

if TYPE_CHECKING:
    from ctsql.api import Connection


def cascading(span: Span) -> st.DropObject | None:
    """The statement, if it is a DROP with CASCADE that can be read."""
    try:
        words = [token.upper for token in tokenise(span)]
        if words[:1] != ["DROP"] or "CASCADE" not in words:
            return None
        statement = parse(span)
    except Error:
        return None  # it says what is wrong when it is run
    return statement if isinstance(statement, st.DropObject) else None


def drops_too(connection: "Connection", statement: st.DropObject) -> list[str]:
    """The objects that would go besides the one that is named, each with its kind."""
    from ctsql.runtime.statements.definitions.alter import Alteration
    from ctsql.runtime.statements.objects.name_resolution import Namespace

    with connection._running("DROP") as engine:
        going = Alteration(Namespace(engine, connection.search_schema)).going(statement)
    return [f"{item.kind.value} {item.name}" for item in going]
