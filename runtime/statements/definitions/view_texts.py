"""The texts of statements that make materialized views. Pure."""

from collections.abc import Sequence

from ctsql.catalog.names import quote
from ctsql.catalog.refreshes import RefreshPart
from ctsql.catalog.schemas import quote_text
from ctsql.planner.binding.constraints import QUARANTINE_REASON, quarantine_query
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.statements.constraints import constraint_text
from ctsql.planner.syntax.statements.options import NOT_NULL, STORAGE_OPTIONS


def view_text(
    view: st.CreateMaterializedView, options: Sequence[st.Option], *, name: str | None = None
) -> str:
    """The statement that makes a view with these options, whichever way it was spelt.

    Args:
        name: how the view is named; None for as it was.
    """
    column_texts = [
        quote(c.name) + (f" COMMENT {quote_text(c.comment)}" if c.comment else "")
        for c in view.columns
    ]
    columns = ", ".join([*column_texts, *map(constraint_text, view.constraints)])
    parts = [
        "CREATE OR REPLACE MATERIALIZED VIEW",
        (name or view.target.span.text) + (f" ({columns})" if columns else ""),
    ]
    if view.comment is not None:
        parts.append(f"COMMENT {quote_text(view.comment)}")
    parts += _with(options)
    return " ".join([*parts, "AS", view.query.span.text])


def quarantine_text(
    view: st.CreateMaterializedView, columns: Sequence[str], name: str
) -> str | None:
    """The statement that makes the quarantine of a view; None where it needs none.

    It is refreshed at the times at which the view is.

    Args:
        columns: the view's. name: of the quarantine, as typed.
    """
    query = quarantine_query(view, columns)
    if query is None:
        return None
    column_list = ", ".join(map(quote, [*columns, *QUARANTINE_REASON]))
    options = [o for o in view.options if o.name not in (NOT_NULL, *STORAGE_OPTIONS)]
    parts = [f"CREATE MATERIALIZED VIEW {name} ({column_list})", *_with(options), "AS", query]
    return " ".join(parts)


def _with(options: Sequence[st.Option]) -> list[str]:
    return [f"WITH ({', '.join(map(_option_text, options))})"] if options else []


def _option_text(option: st.Option) -> str:
    value = option.value
    if isinstance(value, RefreshPart):
        return f"REFRESH {value.text}"
    if option.name == NOT_NULL:
        return f"{NOT_NULL} {quote(str(value))}"
    if option.name in STORAGE_OPTIONS:
        text = quote_text(value) if isinstance(value, str) else str(value).lower()
        return f"{option.name} = {text}"
    return f"{option.name} {value}" if value == "ON COMMIT" else f"{option.name} = {value}"
