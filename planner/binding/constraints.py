"""Binding of constraints, and the query of a view whose constraints leave rows out."""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog import schemas
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import backtick, quote
from ctsql.catalog.reserved_columns import PROPOSED
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Span
from ctsql.planner import nodes as lp
from ctsql.planner.binding.analyst import Analyst
from ctsql.planner.syntax import ast as st, splice

QUARANTINE_REASON = ("constraint_name", "reason")
"""Columns of a view's quarantine behind those of the view."""


def bind_constraint(made: st.ConstraintDef, own: Item, analyst: Analyst | None) -> lp.Constraint:
    """Bind a constraint of an output's rows; raises UNKNOWN_COLUMN, and what Spark says."""
    known = f'"{own.name}" has the columns'
    predicate = made.predicate
    constraint = lp.Constraint(
        object_id=own.id,
        name=made.name,
        action=made.action,
        predicate=None if predicate is None else lp.Query(sql=predicate, relations=(), columns=()),
        not_null=tuple(
            schemas.get(own.columns, name, span=made.span, known=known).name
            for name in made.columns
        ),
        of=own.name if own.kind is ObjectKind.TASK_OUTPUT else None,
    )
    if analyst is not None and constraint.predicate is not None:
        names = tuple(c.name for c in own.columns)
        rows = lp.Get(object_id=own.id, name=own.name, columns=names, role=lp.Role.SELF)
        check = lp.Delete(of=rows, alias=PROPOSED, where=constraint.predicate)
        analyst.check_predicate(check, own.columns)
    return constraint


def without_broken(view: st.CreateMaterializedView, columns: Sequence[str]) -> st.SqlText:
    """The query of a view of some columns, without the rows that a constraint leaves out. Pure."""
    left_out = (st.OnViolation.DROP, st.OnViolation.QUARANTINE)
    kept = " AND ".join(_kept(c) for c in view.constraints if c.action in left_out)
    if not kept:
        return view.query
    failing = _failing(view)
    if failing:
        kept = f"({kept}) OR NOT ({failing})"  # such a row is no row to be left out, but an error
    query = view.query
    start, stop = query.span.start, query.span.stop
    before = st.Edit(span=Span(query.span.source, start, start), text="SELECT * FROM (")
    end = f"\n) AS {_proposed(columns)} WHERE {kept}"
    after = st.Edit(span=Span(query.span.source, stop, stop), text=end)
    return replace(query, edits=(before, *query.edits, after))


def quarantine_query(view: st.CreateMaterializedView, columns: Sequence[str]) -> str | None:
    """The query of a view's quarantine: the rows that are left out, and why; None for none. Pure.

    Names in it mean what they mean in the view's query.
    """
    quarantines = [c for c in view.constraints if c.action is st.OnViolation.QUARANTINE]
    if not quarantines:
        return None
    named = _broken(view.constraints, [c.name for c in view.constraints], ", ")
    reasons = [f"{c.rule} does not hold" for c in view.constraints]
    why = _broken(view.constraints, reasons, "; ")
    kept = " AND ".join(_kept(c) for c in quarantines)
    failing = _failing(view)
    which = f"NOT ({kept})" + (f" AND {failing}" if failing else "")
    name, reason = QUARANTINE_REASON
    return (
        f"SELECT *, {named} AS {name}, {why} AS {reason} FROM (\n"
        f"{splice(view.query.span, view.query.edits).text}\n"
        f") AS {_proposed(columns)} WHERE {which}"
    )


def _failing(view: st.CreateMaterializedView) -> str:
    """The condition that a row breaks no constraint that makes the view an error; or empty."""
    fails = (c for c in view.constraints if c.action is st.OnViolation.FAIL)
    return " AND ".join(map(_kept, fails))


def _broken(made: Sequence[st.ConstraintDef], texts: Sequence[str], between: str) -> str:
    each = ", ".join(
        f"IF({_kept(c)}, CAST(NULL AS STRING), {quote_text(text)})"
        for c, text in zip(made, texts, strict=True)
    )
    return f"concat_ws({quote_text(between)}, {each})"


def _kept(made: st.ConstraintDef) -> str:
    """The condition that a row keeps a constraint; never NULL."""
    if made.predicate is None:
        return "(" + " AND ".join(f"{backtick(name)} IS NOT NULL" for name in made.columns) + ")"
    return f"(({splice(made.predicate.span, made.predicate.edits).text}) IS NOT FALSE)"


def _proposed(columns: Sequence[str]) -> str:
    return f"{PROPOSED}({', '.join(map(quote, columns))})"
