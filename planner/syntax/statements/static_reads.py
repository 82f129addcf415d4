"""Spells out what a statement of another system's text reads whole, in the body of a task.

There a relation without a mark is read whole, and a mark (``STREAM``, ``CHANGES``) asks for its
changes. In a body the name of an input alone means its inserts, so each relation without a mark
becomes ``contents(t)``: what it means then does not depend on which inputs the task has.
"""

from collections.abc import Iterator

from ctsql.catalog.names import backtick, fold
from ctsql.planner.syntax import ast as st


def read_whole(statement: st.BodyStatement) -> Iterator[st.Edit]:
    """The edits that read each relation without a mark whole, but for the statement's target."""
    own = [fold(part) for part in statement.target.parts]
    source = statement.source if isinstance(statement, st.MergeStatement) else None
    for text in st.texts_of(statement):
        for ref in text.relations:
            if ref.change is not None or ref.file is not None:
                continue
            if [fold(part) for part in ref.parts] == own:
                continue
            # MERGE INTO t USING s: the alias of s is its name anyway.
            aliased = ref.aliased or (source is text and ref.span == text.span)
            alias = "" if aliased else f" AS {backtick(ref.parts[-1])}"
            yield st.Edit(span=ref.span, text=f"contents({ref.span.text}){alias}")
            yield from (st.Edit(span=prefix, text="") for prefix in ref.column_prefixes)
