"""Constraints of tables: Delta's own CHECKs, which every writer of the table has to keep.

A table is written by ctsql, by Spark and by others, so a rule that holds for its rows must be one
that all of them keep: it is written into the table as Delta's protocol has it, and a writer that
does not know it may not write. Such a rule refuses; it neither drops rows nor sets them aside.

A CHECK of Delta is broken by NULL, one of SQL is not: so what is written is
``(condition) IS NOT FALSE``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ctsql.catalog.errors import error
from ctsql.catalog.items import Catalog, Item, was_dropped
from ctsql.catalog.names import backtick, did_you_mean, fold, quote
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.syntax.statements.constraints import with_names
from ctsql.planner.syntax.tokens.tokenizer import tokenise, words_of
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.dml import target_table
from ctsql.runtime.statements.name_resolution import OnNames
from ctsql.runtime.warehouse.multi_table_commit import alone

_PROPERTY = "delta.constraints."
_OURS = re.compile(r"\((.*)\) IS NOT FALSE", re.DOTALL)
_DONE = "ALTER TABLE"


def check_text(made: st.ConstraintDef) -> str:
    """What Delta has to check for each row that is written. Pure."""
    if made.predicate is None:
        return " AND ".join(f"{backtick(name)} IS NOT NULL" for name in made.columns)
    return f"({splice(made.predicate.span, made.predicate.edits).text}) IS NOT FALSE"


def stored_constraints(configuration: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The names and rules of a table's CHECKs, whoever made them, by its properties. Pure.

    >>> list(stored_constraints({"delta.constraints.c": "(v > 0) IS NOT FALSE", "other": "1"}))
    [('c', 'CHECK (v > 0)')]
    """
    for key, text in sorted(configuration.items()):
        if key.startswith(_PROPERTY):
            ours = _OURS.fullmatch(text)
            yield (
                key.removeprefix(_PROPERTY),
                f"CHECK ({_plain(text if ours is None else ours[1])})",
            )


def _plain(text: str) -> str:
    """A condition as people write it: Delta keeps its words with a blank between any two.

    >>> _plain("f ( a , 'x ) y' ) > 0")
    "f(a, 'x ) y') > 0"
    """
    words = [token.span.text for token in tokenise(Source(text, "constraint").whole())]
    made = ""
    for before, word in zip(["(", *words], words, strict=False):
        is_call = word == "(" and before.isidentifier() and before.upper() not in _BEFORE
        apart = before not in ("(", ".") and word not in (")", ",", ".") and not is_call
        made += f" {word}" if apart else word
    return made


_BEFORE = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "WHEN", "THEN", "ELSE", "CASE")


def says_constraints(made: Sequence[st.ConstraintDef], configuration: Mapping[str, str]) -> bool:
    """Whether constraints are all that a table has, or none are said. Pure."""
    wanted = {f"{_PROPERTY}{fold(c.name)}": _words(check_text(c)) for c in made}
    there = {fold(k): _words(v) for k, v in configuration.items() if k.startswith(_PROPERTY)}
    return not wanted or wanted == there


def _words(text: str) -> list[str]:
    return words_of(Source(text, "constraint").whole())


def add_constraints(engine: Engine, location: str, made: Iterable[st.ConstraintDef]) -> None:
    """Add constraints to the table in a folder; raises where a row that is there breaks one."""
    for one in made:
        text = f"ADD CONSTRAINT {backtick(one.name)} CHECK ({check_text(one)})"
        with translate_spark_errors():
            engine.session.sql(f"ALTER TABLE delta.`{location}` {text}")


class TableConstraints(OnNames):
    """ALTER TABLE ... ADD CONSTRAINT and DROP CONSTRAINT; returns the status line."""

    def change(self, statement: st.ChangeConstraints) -> str:
        """Change what every row of a table must keep.

        Raises:
            UNKNOWN_CONSTRAINT: there is none to drop. INVALID_STATEMENT: the name is taken.
            DATA_ERROR: a row that is there breaks it.
        """
        engine = self.engine
        item = target_table(engine, statement.target, self.names.search_schema)
        table = engine.relations.table(item)
        with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
            there = dict(stored_constraints(table.configuration()))
            if statement.added is not None:
                added = _named(statement.added, there)
                add_constraints(engine, location, [added])
                text = _added_text(added)
            else:
                name = next((n for n in there if fold(n) == fold(statement.dropped)), None)
                if name is None and statement.if_exists:
                    return f"{_DONE} (unchanged)"
                if name is None:
                    raise _unknown(item, statement, there)
                text = f"DROP CONSTRAINT IF EXISTS {quote(name)}"
                with translate_spark_errors():
                    engine.session.sql(
                        f"ALTER TABLE delta.`{location}` DROP CONSTRAINT {backtick(name)}"
                    )
        faults.point("source_committed")
        self._note(item, text)
        engine.mint()
        return _DONE

    def _note(self, item: Item, text: str) -> None:
        """Write the change into the catalog, which makes it again in a dump."""

        def noted(current: Catalog) -> Catalog:
            now = current.items.get(item.id)
            if now is None:
                raise was_dropped(item.name, "meanwhile", item.kind.value)
            return current.with_item(replace(now, alterations=(*now.alterations, text)))

        self.engine.catalog_store.change(noted)
        self.engine.refresh_catalog()


def _named(made: st.ConstraintDef, there: Mapping[str, str]) -> st.ConstraintDef:
    """A constraint with a name that none of those that are there has."""
    span = made.span
    known = [
        st.ConstraintDef(
            name=name, span=span, columns=(), predicate=None, action=st.OnViolation.FAIL
        )
        for name in there
    ]
    return with_names([*known, made])[-1]


def _added_text(made: st.ConstraintDef) -> str:
    rule = made.rule if made.predicate is None else f"CHECK ({made.predicate.span.text})"
    return f"ADD CONSTRAINT {quote(made.name)} {rule}"


def _unknown(item: Item, statement: st.ChangeConstraints, there: Mapping[str, str]) -> Exception:
    span: Span | None = statement.dropped_span
    hint = did_you_mean(statement.dropped, [*there], otherwise="SHOW CONSTRAINTS lists them.")
    return error(
        "UNKNOWN_CONSTRAINT",
        span=span,
        name=statement.dropped,
        relation=str(item.name),
        hint=hint,
    )
