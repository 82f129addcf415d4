"""ALTER MATERIALIZED VIEW ... SET and RESET: the same query under other options.

It is CREATE OR REPLACE with the definition that is there, so what holds for that holds here.
"""

from collections.abc import Sequence

from ctsql.catalog.items import ObjectKind
from ctsql.catalog.names import quote
from ctsql.catalog.refreshes import RefreshPart
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import ast as st, parse
from ctsql.planner.syntax.statements.options import NOT_NULL, STORAGE_OPTIONS
from ctsql.runtime.statements.create import Creation
from ctsql.runtime.statements.name_resolution import Namespace
from ctsql.runtime.statements.show import current_definition


def set_view_options(names: Namespace, statement: st.SetOptions) -> str:
    """Put other options in force; raises as CREATE OR REPLACE MATERIALIZED VIEW does."""
    engine = names.engine
    item = names.of_kind(statement.target, ObjectKind.MATERIALIZED_VIEW)
    text = current_definition(engine, item)
    old = parse(Source(text, f"definition of {item.name}").whole())
    assert isinstance(old, st.CreateMaterializedView)  # the definition of such a view
    given = {o.name for o in statement.options} | set(statement.reset)
    kept = [o for o in old.options if o.name not in given]
    made = view_text(old, [*kept, *statement.options])
    new = parse(Source(made, f"definition of {item.name}").whole())
    assert isinstance(new, st.CreateMaterializedView)  # as it was written
    Creation(Namespace(engine, item.search_schema)).create_materialized_view(new)
    return "ALTER MATERIALIZED VIEW"


def view_text(
    view: st.CreateMaterializedView, options: Sequence[st.Option], *, name: str | None = None
) -> str:
    """The statement that makes a view with these options, whichever way it was spelt. Pure.

    Args:
        name: how the view is named; None for as it was.
    """
    columns = ", ".join(
        quote(c.name) + (f" COMMENT {quote_text(c.comment)}" if c.comment else "")
        for c in view.columns
    )
    parts = [
        "CREATE OR REPLACE MATERIALIZED VIEW",
        (name or view.target.span.text) + (f" ({columns})" if columns else ""),
    ]
    if view.comment is not None:
        parts.append(f"COMMENT {quote_text(view.comment)}")
    if options:
        parts.append(f"WITH ({', '.join(map(_option_text, options))})")
    return " ".join([*parts, "AS", view.query.span.text])


def _option_text(option: st.Option) -> str:
    value = option.value
    if isinstance(value, RefreshPart):
        return f"REFRESH {value.text}"
    if option.name == NOT_NULL:
        return f"{NOT_NULL} {quote(str(value))}"
    if option.name in STORAGE_OPTIONS:
        written = quote_text(value) if isinstance(value, str) else str(value).lower()
        return f"{option.name} = {written}"
    return f"{option.name} {value}" if value == "ON COMMIT" else f"{option.name} = {value}"
