"""Finds the definitions that a TEST statement needs, and the T of each of its steps. Pure.

A test creates the objects that it names, and all that they read. An object that it gives rows to
becomes a table, so nothing below it is needed. Attached and loaded tables become plain tables: a
test reads nothing outside of the folder. The clock does not run: a step's T is its AT, or a second
after the step before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog import times
from ctsql.catalog.errors import CONDITIONS, bad_option, invalid, unknown_relation
from ctsql.catalog.names import Name, did_you_mean
from ctsql.catalog.spans import Span
from ctsql.planner.binding.binder import qualify
from ctsql.planner.folder import FileDefinition, Folder
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.syntax.statements.options import LOCATION

START_MS = times.parse_time("2026-01-01 00:00:00")  # the T of a first step without AT
STEP_MS = 1_000
"""The time between steps without AT, and between the objects' creation and the first."""
FIRST_MS = 60_000  # the first T of AT, so that there is room for the objects' creation


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A table that a test gives rows to, replacing the folder's object of that name."""

    name: Name
    ref: st.RelationRef  # the place where it is first given rows
    # the columns that the test declares; none if the folder's object has them
    columns: tuple[st.ColumnDef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPlan:
    """The objects to create for a test, in order: schemas, stand-in tables, definitions."""

    __test__ = False  # pytest would collect a class named Test

    test: st.Test
    schema: str  # where the test's unqualified names are looked up
    stand_ins: tuple[StandIn, ...]
    definitions: tuple[FileDefinition, ...]
    step_times: tuple[int, ...]  # the T of each step

    @property
    def made_at(self) -> int:
        """The T at which the objects are created."""
        return (self.step_times[0] if self.step_times else START_MS) - STEP_MS

    @property
    def schemas(self) -> list[str]:
        """The schemas of the created objects, and of objects made of them."""
        names = [n for d in self.definitions for n in d.names] + [s.name for s in self.stand_ins]
        schemas = [*(n.schema for n in names), *(d.schema for d in self.definitions), self.schema]
        return list(dict.fromkeys(schemas))


def plan_test(test: st.Test, schema: str, folder: Folder) -> TestPlan:
    """Plan a test of a folder.

    Raises:
        UNKNOWN_RELATION: a relation is defined nowhere, and the test gives no columns of it.
            INVALID_STATEMENT: the test gives columns of a table in the folder; a part of a task
            would be created twice. INVALID_OPTION: its times do not increase; an unknown condition.
    """
    for expectation in test.expectations:
        if isinstance(expectation, st.ExpectError) and expectation.condition not in CONDITIONS:
            hint = did_you_mean(expectation.condition, CONDITIONS)
            span, name = expectation.condition_span, expectation.condition
            raise bad_option(span, "ERROR", "There is no such condition.", value=name, hint=hint)
    stand_ins = _stand_ins(test, schema, folder)
    names_read = [qualify(ref, schema) for ref in _relations(test) if ref.file is None]
    definitions = _definitions_for(names_read, stand_ins, folder)
    _check_known(test, schema, folder, stand_ins, definitions)
    return TestPlan(
        test=test,
        schema=schema,
        stand_ins=tuple(stand_ins.values()),
        definitions=tuple(_detached(d) for d in definitions),
        step_times=tuple(_times(test.steps)),
    )


def _times(steps: Sequence[st.TestStep]) -> Iterator[int]:
    newest = START_MS - STEP_MS
    for number, step in enumerate(steps):
        at = newest + STEP_MS
        if step.at is not None:
            at = times.parse_time(step.at.value, span=step.at.span, option="AT")
            if number == 0 and at < FIRST_MS:
                detail = "A test begins a minute after 1970-01-01 00:00:00 UTC, or later."
                raise bad_option(step.at.span, "AT", detail)
            if number > 0 and at <= newest:
                detail = (
                    f"The step before it is at {times.to_iso(newest)}; the clock cannot go back."
                )
                raise bad_option(step.at.span, "AT", detail)
        newest = at
        yield at


def _stand_ins(test: st.Test, schema: str, folder: Folder) -> dict[Name, StandIn]:
    stand_ins: dict[Name, StandIn] = {}
    for step in test.steps:
        for change, columns in zip(step.changes, step.columns, strict=True):
            ref = change.target
            name = qualify(ref, schema)
            definition, typed = folder.find(name), _typed(columns)
            if definition is not None and _is_table(definition, attached=False):
                if columns:
                    message = f'the folder defines the columns of table "{name}"'
                    detail = f"It is defined at {definition.span.place()}."
                    raise invalid(ref.span, message, detail, "Leave their types out.")
            elif columns and name in stand_ins and typed != _typed(stand_ins[name].columns):
                message = f'the columns of "{name}" are given twice'
                raise invalid(ref.span, message, "", "Leave their types out here.")
            elif columns or definition is not None:
                stand_ins.setdefault(name, StandIn(name=name, ref=ref, columns=columns))
    return stand_ins


def _typed(columns: Sequence[st.ColumnDef]) -> list[tuple[str, str | None]]:
    return [(c.name, c.type) for c in columns]


def _is_table(definition: FileDefinition, *, attached: bool) -> bool:
    statement = definition.statement
    return isinstance(statement, st.CreateTable) and (statement.location is not None) == attached


def _relations(test: st.Test) -> Iterator[st.RelationRef]:
    for change in (change for step in test.steps for change in step.changes):
        yield change.target
        yield from change.text.relations
    for expectation in test.expectations:
        match expectation:
            case st.ExpectRows():
                yield from expectation.query.relations
                if expectation.rows is not None:
                    yield from expectation.rows.relations
            case st.ExpectNoChange():
                yield expectation.subject
            case st.ExpectError(subject=st.RelationRef() as subject):
                yield subject
            case _:
                pass


def _definitions_for(
    names: Iterable[Name], stand_ins: dict[Name, StandIn], folder: Folder
) -> list[FileDefinition]:
    """The definitions that create the wanted objects, each after what it reads."""
    definitions = folder.closure(names, stand_ins)
    for definition in definitions:
        twice = next((n for n in definition.names if n in stand_ins), None)
        if twice is not None:
            message = f'"{twice}" is given rows, but "{definition.name}" is needed'
            raise invalid(stand_ins[twice].ref.span, message, f'That also creates "{twice}".')
    return definitions


def _check_known(
    test: st.Test,
    schema: str,
    folder: Folder,
    stand_ins: dict[Name, StandIn],
    definitions: Sequence[FileDefinition],
) -> None:
    """Raise UNKNOWN_RELATION unless every relation that is read is created."""
    names = {
        name for definition in folder.definitions for name in definition.names
    } | stand_ins.keys()
    for ref in _relations(test):
        name = qualify(ref, schema)
        if ref.file is None and name not in names:
            near = did_you_mean(name.name, [n.name for n in names])
            hint = near or f"No file of the folder creates it. {_how_to_give(name)}"
            raise unknown_relation(name, hint, ref.span)
    for stand_in in stand_ins.values():
        definition = folder.find(stand_in.name)
        if definition is not None and not stand_in.columns:
            _check_not_attached(definition, stand_in.ref.span)
    check_made(definitions, names, test.name_span)


def check_made(definitions: Iterable[FileDefinition], names: Iterable[Name], span: Span) -> None:
    """Raise UNKNOWN_RELATION or INVALID_STATEMENT unless the definitions can be created."""
    for definition in definitions:
        _check_not_attached(definition, span)
        for name in definition.reads:
            if name not in names:
                hint = f'"{definition.name}" reads it. {_how_to_give(name)}'
                raise unknown_relation(name, hint, definition.span)


def _check_not_attached(definition: FileDefinition, span: Span) -> None:
    if _is_table(definition, attached=True):
        message = f'the columns of "{definition.name}" are not in the folder'
        detail = (
            f"It is attached at {definition.span.place()}; a test does not read attached tables."
        )
        raise invalid(span, message, detail, _how_to_give(definition.name))


def made_for_columns(name: Name, folder: Folder, span: Span) -> list[FileDefinition]:
    """The definitions needed for the columns of a folder's object, in order; raises the same."""
    definitions = folder.closure([name])
    check_made(definitions, {n for d in folder.definitions for n in d.names}, span)
    return [_detached(d) for d in definitions]


def _how_to_give(name: Name) -> str:
    return f"To give it rows: GIVEN {name} (id INT, ...) VALUES (...)"


def _detached(definition: FileDefinition) -> FileDefinition:
    """The definition without LOCATION."""
    statement = definition.statement
    match statement:
        case st.CreateMaterializedView() | st.CreateContinualTask():
            options = tuple(o for o in statement.options if o.name != LOCATION)
            return replace(definition, statement=replace(statement, options=options))
        case _:
            return definition


def at_time(text: st.SqlText, time: int) -> st.SqlText:
    """A piece of SQL in which now() and similar functions mean a T."""
    if not text.clocks:
        return text
    edits = (st.Edit(span=call.span, text=call.kind.sql(time)) for call in text.clocks)
    return replace(text, clocks=(), edits=(*text.edits, *edits))


def typed_values(
    rows: st.SqlText,
    cells: Sequence[Sequence[Span]],
    types: Sequence[str],
    extra_types: Mapping[int, str],
) -> st.SqlText:
    """VALUES in which each value is cast to its column's type, by itself.

    So a text may mean a time in one row and another in the next. The same values cast to
    ``extra_types`` follow, which shows losses. ``cells`` has ``types`` values a row.
    """
    edits = list(rows.edits)
    for row in cells:
        for number, (cell, kind) in enumerate(zip(row, types, strict=True), start=1):
            behind = f" AS {kind})"
            if number == len(row):
                behind += "".join(
                    f", CAST({_text(row[i], rows)} AS {extra_types[i]})" for i in extra_types
                )
            edits.append(st.Edit(span=cell.front, text="CAST("))
            edits.append(st.Edit(span=cell.behind, text=behind))
    return replace(rows, edits=tuple(edits))


def _text(cell: Span, rows: st.SqlText) -> str:
    inside = [e for e in rows.edits if cell.start <= e.span.start and e.span.stop <= cell.stop]
    return splice(cell, inside).text
