"""Where rows come from: level by level, through views and runs of tasks, down to source tables.

A view's rows come from what its query reads as of the same T. A task's row comes from the run at
the T at which it was last written: from the changes of the inputs at that T, and what else the
INSERT read as of it, or an earlier pass of the body had made, or RETRY QUARANTINE had sent through
again (:mod:`ctsql.runtime.statements.task_runs`). Each level is found by the locations of rows
(:mod:`ctsql.planner.ivm.lineage` makes the queries, Spark runs them); of the rows found there the
driver takes the first few.

[exact-or-noted] what is listed is exact. Where something cannot be told a line says so in its note.
[bounded-rows] the driver takes at most ``SHOWN_MAX`` rows a line of the plan, of bounded width.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.names import backtick, backtick_all, fold
from ctsql.catalog.reserved_columns import FILE_COLUMN, NOTE, ROW_COLUMN, TIME, VERSION
from ctsql.catalog.schemas import Column, char_length, plain_type
from ctsql.catalog.spans import Source
from ctsql.planner import nodes as lp
from ctsql.planner.body_rows import written_rows
from ctsql.planner.ivm import Input, PlainView, Relation, TableUse, Text
from ctsql.planner.ivm.algebra.reasons import Reason
from ctsql.planner.ivm.lineage import Contribution, trace, wanted_columns, whole_query
from ctsql.planner.lowering import Context
from ctsql.planner.lowering.queries import rewrite_text
from ctsql.planner.rules import transform
from ctsql.planner.syntax import RewrittenText, parse
from ctsql.planner.syntax.ast import CreateContinualTask
from ctsql.runtime.engine import Engine
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.declined import Declined
from ctsql.runtime.rows.row_set import RowSet, SparkRows
from ctsql.runtime.spark.checkpoint import computed
from ctsql.runtime.spark.storage_errors import FILE_MISSING
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.statements.task_runs import Pass, TaskRun, equal_rows, without, without_faulty
from ctsql.runtime.views.change_plans import types_given
from ctsql.runtime.warehouse.query_engine import Table
from ctsql.runtime.warehouse.row_origins import (
    LocatedContents,
    deleted_at,
    inserted_at,
    located_contents,
    with_writers,
)
from ctsql.runtime.warehouse.sources import StoredSources

COLUMNS = (
    ("level", "int"),
    ("object", "string"),
    ("t", "bigint"),
    ("at", "timestamp"),
    ("version", "bigint"),
    ("via", "string"),
    ("row", "string"),
    ("rows", "bigint"),
    ("note", "string"),
)
"""Of a line; ``rows`` is how many rows there are in all where this one was found."""
SHOWN_MAX = 100
RUNS_MAX = 10
"""Of so many runs of a task at most, the newest ones, it is told where their rows come from."""
ROW_CHARACTERS_MAX = 8192
_WIDE = f"the row has more than {ROW_CHARACTERS_MAX} letters"
_LOST = ("HISTORY_LOST", "AS_OF_OUT_OF_RANGE", "NOT_SUPPORTED", "DATA_ERROR")

_RETRIED = "RETRY QUARANTINE"
_SET_ASIDE = "set aside as it could not be computed"

Line = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class TracedRows:
    """Some rows of an object as of T: with their locations, of all that it held then."""

    item: Item
    stored_rows: LocatedContents
    rows: DataFrame
    at: int


@dataclass(frozen=True, slots=True)
class EarlierRows:
    """Some rows that an earlier pass of a body made for an output."""

    output_id: str
    rows: DataFrame


@dataclass
class Reader:
    """The text of a query with a name for each relation that it reads.

    Attributes:
        beside: the columns of what is no stored object's, by id. nodes: what each name means.
    """

    engine: Engine
    at: int
    beside: Mapping[str, Sequence[Column]] = field(default_factory=dict)
    nodes: dict[str, lp.Node] = field(default_factory=dict)

    def read(self, query: lp.Query) -> tuple[RewrittenText, dict[str, Relation]]:
        """The text, in which the clock says T, and what the names in it are."""
        relations: dict[str, Relation] = {}
        names = {}
        for ref, node in zip(query.sql.relations, query.relations, strict=True):
            name = f"r{len(self.nodes)}"
            self.nodes[name] = node
            names[ref] = name
            if isinstance(node, lp.ViewReference):
                text, below = self.read(node.query)
                relations[name] = PlainView(text.text, node.columns, below)
            else:
                assert isinstance(node, lp.Relation)  # a definition reads no files
                columns = self._columns(node)
                relations[name] = tuple(replace(c, type=plain_type(c.type)) for c in columns)
        warehouse = self.engine.warehouse
        context = Context(self.engine.session, StoredSources(warehouse), self.at, clock_at=self.at)
        return rewrite_text(query.sql, names, context), relations

    def refusal(self, query: lp.Query, whole: Text | Reason) -> str | None:
        """Why nothing can be told of a query; None if Spark reads it as the planner does.

        Args:
            whole: how the planner reads it, of :func:`whole_query`.
        """
        if isinstance(whole, Reason):
            return whole.sentence
        tables = {
            use.table: Table(node.object_id, self._columns(node), node.columns)
            for use in whole.inputs
            if isinstance(use, TableUse) and isinstance(node := self.nodes[use.table], lp.Relation)
        }
        session = self.engine.session
        query_by_reference = lp.map_nodes(query, _as_reference)
        assert isinstance(query_by_reference, lp.Query)
        alike = types_given(
            self.engine.queries, session, query_by_reference, whole, tables, self.at
        )
        return None if alike is not None else "Spark may read this query otherwise"

    def _columns(self, node: lp.Relation) -> tuple[Column, ...]:
        columns = self.beside.get(node.object_id)
        if columns is None:
            item = self.engine.relations.item(node.object_id)
            columns = self.engine.versions.columns_at(item, self.at)
        by_name = {fold(c.name): c for c in columns}
        return tuple(by_name[fold(c)] for c in node.columns if fold(c) in by_name)


class RowLineage:
    """One answer to WHY.

    Attributes:
        lines: the answer, in the order in which it is found.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.warehouse = engine.warehouse
        self.lines: list[Line] = []
        self._refusals: dict[str, str | None] = {}
        self._contents: dict[tuple[str, int], LocatedContents | None] = {}

    def explain(self, traced_rows: TracedRows) -> None:
        """Answer for some rows of an object."""
        self._show(traced_rows, 0, "")
        self._follow(traced_rows, 1)

    def explain_view(self, item: Item, rows: DataFrame, at: int) -> None:
        """Answer for some rows of a plain view, which has none of its own."""
        first = rows.select(row_json(rows.columns)).limit(SHOWN_MAX).collect()
        count = len(first) if len(first) < SHOWN_MAX else rows.count()
        for (row,) in first:
            self._line(0, item, None, None, "", row, count, None if row else _WIDE)
        query = transform(self.engine.relations.bound(item).query)
        assert isinstance(query, lp.Query)  # it stays one
        columns = [c.name for c in item.columns]
        self._trace(_Step(query, columns, item.columns, item, at, "query"), rows, 1)

    def _follow(self, traced_rows: TracedRows, level: int) -> None:
        match traced_rows.item.kind:
            case ObjectKind.MATERIALIZED_VIEW:
                self._through_view(traced_rows, level)
            case ObjectKind.CONTINUAL_TASK | ObjectKind.TASK_OUTPUT:
                self._through_task(traced_rows, level)
            case _:
                pass  # a source: it was written by whoever made that commit

    def _through_view(self, traced_rows: TracedRows, level: int) -> None:
        plan = self.engine.relations.bound(traced_rows.item).view
        at = self.warehouse.schedules.shown_at(traced_rows.item, traced_rows.at)
        if at is None:
            return
        columns = [c.name for c in plan.columns]
        step = _Step(plan.desired, columns, tuple(plan.columns), traced_rows.item, at, "query")
        self._trace(step, traced_rows.rows, level)

    def _through_task(self, traced_rows: TracedRows, level: int) -> None:
        writes = with_writers(self.warehouse, traced_rows.stored_rows, traced_rows.rows)
        runs = writes.groupBy(TIME).count().orderBy(F.col(TIME).desc())
        heads = runs.limit(RUNS_MAX + 1).collect()
        task = traced_rows.item
        if task.kind is ObjectKind.TASK_OUTPUT:
            task = self.engine.relations.item(task.owner)
        for time, count in heads[:RUNS_MAX]:
            rows = writes.where(F.col(TIME).eqNullSafe(time)).drop(TIME, VERSION, NOTE)
            if time is None:
                self._tell(
                    level, traced_rows.item, None, "", count, "the T of their runs is not known"
                )
            else:
                self._through_run(task, traced_rows.item, rows, time, level)
        if len(heads) > RUNS_MAX:
            note = f"of older runs than the {RUNS_MAX} newest it is not told; ask for fewer rows"
            self._tell(level, traced_rows.item, None, "", None, note)

    def _through_run(
        self, task: Item, output: Item, rows: DataFrame, time: int, level: int
    ) -> None:
        why = self._why_untold(task, time)
        if why is not None:
            self._tell(level, output, time, "", None, f"cannot be told: {why}")
            return
        _, plan = self.engine.relations.in_force(task, time)
        with ExitStack() as stack:
            aside = None
            try:
                run = TaskRun(self.engine, task, plan, time, stack)
                passes = run.passes()
                origin = run.mended_rows(output, rows)
                if output.id == task.quarantine:
                    aside = self._before_quarantine(run, rows)
            except CtsqlError as problem:
                if not _is_lost(problem):
                    raise
                passes = problem.message
            if isinstance(passes, str):
                self._tell(level, output, time, "", None, f"cannot be told: {passes}")
                return
            if origin is not None:
                retried_rows = TracedRows(origin.item, origin, origin.rows, time - 1)
                if self._show(retried_rows, level, _RETRIED):
                    self._follow(retried_rows, level + 1)
            rows_by_output = {output.id: rows}
            if aside is not None:
                came, rows_by_output = aside
                if came is not None and self._show(came, level, _SET_ASIDE):
                    self._follow(came, level + 1)
            for body_pass in reversed(passes):
                rows_by_output = self._through_pass(run, body_pass, rows_by_output, level)

    def _before_quarantine(
        self, run: TaskRun, rows: DataFrame
    ) -> tuple[TracedRows | None, dict[str, DataFrame]]:
        """What rows of a quarantine were before they were set aside.

        Returns:
            rows of the input that were at fault; of rows that broke a constraint those that the
            body proposed, by output.
        """
        input_id, at_fault, proposals = run.before_quarantine(rows)
        if at_fault is None:
            return None, proposals
        item = self.engine.relations.item(input_id)
        stored_rows = (
            self._whole(item, run.time)
            if run.is_snapshot
            else inserted_at(self.warehouse, item, run.time)
        )
        if not isinstance(stored_rows, LocatedContents):
            return None, proposals
        faulty_rows = equal_rows(stored_rows.rows, at_fault)
        return TracedRows(item, stored_rows, faulty_rows, run.time), proposals

    def _through_pass(
        self, run: TaskRun, body_pass: Pass, rows_by_output: Mapping[str, DataFrame], level: int
    ) -> dict[str, DataFrame]:
        """Follow rows that outputs held behind a pass; returns those that earlier ones made."""
        earlier: dict[str, list[DataFrame]] = {}
        for output_id, rows in rows_by_output.items():
            output = self.engine.relations.item(output_id)
            for one in written_rows(
                run.plan, output_id, is_later=body_pass.is_later, again=run.again
            ):
                name = body_pass.name_of(one.statement)
                if one.why_untold or one.query is None:
                    self._tell(
                        level, output, run.time, name, None, f"cannot be told: {one.why_untold}"
                    )
                    continue
                step = _Step(
                    one.query,
                    [c.name for c in one.columns],
                    one.columns,
                    output,
                    run.time,
                    name,
                    is_snapshot=run.is_snapshot,
                    body_pass=body_pass,
                )
                for earlier_rows in self._trace(step, rows, level):
                    earlier.setdefault(earlier_rows.output_id, []).append(earlier_rows.rows)
        return {o: reduce(DataFrame.unionByName, parts) for o, parts in earlier.items()}

    def _why_untold(self, task: Item, time: int) -> str | None:
        """Why the definition does not say what wrote rows at a T; None if it does."""
        if time == task.created_at and _begins_with_copies(task):
            return "the task began with rows that were copied"
        number = self.engine.timeline.task(task.id).revision_at(time)
        if number in {r.number for r in task.revisions}:
            return None
        return "the definition that was in force then is no longer kept"

    # ---- one query

    def _trace(self, step: "_Step", rows: DataFrame, level: int) -> list[EarlierRows]:
        """Show and follow what some rows come from through one query.

        Returns what is neither shown nor followed: rows that an earlier pass of the body made.
        """
        beside = {key: one.columns for key, one in step.body_pass.beside.items()}
        reader = Reader(self.engine, step.at, beside)
        text, relations = reader.read(step.query)
        whole = whole_query(text.text, relations)
        key = f"{text.text} over {relations}"
        why = self._refusals.get(key, "")
        if why == "":
            why = self._refusals[key] = reader.refusal(step.query, whole)
        if why is not None or isinstance(whole, Reason):
            self._tell(level, step.item, step.at, step.name, None, f"cannot be told: {why}")
            return []
        lineage = trace(whole, step.casts)
        target_rows = _compute_once(
            _target_step(rows, [step.columns[i] for i in lineage.compared_columns])
        )
        if step.body_pass.number and not self._gives_any(
            lineage.asked_rows, reader.nodes, step, target_rows
        ):
            return []  # one question instead of one for each place that each pass reads
        note: str | None = None
        if lineage.inexact:
            names = ", ".join(step.columns[i] for i in lineage.inexact)
            note = f"{names} is not compared, as it depends on the order of rows"
        groups: dict[tuple[str, int], list[TracedRows]] = {}
        earlier: list[EarlierRows] = []
        for one in lineage.contributions:
            via = " > ".join((step.name, *one.operators))
            came = self._contributing(one, reader.nodes, step, target_rows)
            node = reader.nodes[one.table]
            if isinstance(came, str):
                is_beside = read_id(node) in step.body_pass.beside
                item = step.item if is_beside else self.engine.relations.item(read_id(node))
                self._tell(level, item, None, via, None, came)
                continue
            if isinstance(came, EarlierRows):
                earlier += [] if came.rows.isEmpty() else [came]
                continue
            count = 0 if came is None else self._show(came, level, via, note)
            if came is not None and count and not isinstance(node, lp.SelfReference):
                groups.setdefault((came.item.id, came.at), []).append(came)
        for parts in groups.values():
            self._follow(_together(parts), level + 1)
        return earlier

    def _contributing(
        self,
        one: Contribution,
        nodes: Mapping[str, lp.Node],
        step: "_Step",
        target_rows: DataFrame,
    ) -> "TracedRows | EarlierRows | str | None":
        """The rows at one place; a sentence where they cannot be told, None if there are none.

        Those of an earlier pass of the body have no place that could be shown.
        """
        if one.rows is None:
            return f"cannot be told: {one.why_untold}"
        node = nodes[one.table]
        target = step.body_pass.beside.get(read_id(node))
        try:
            inputs = self._inputs(one.rows, nodes, step, target_rows)
            if isinstance(inputs, str):
                return inputs
            stored_rows = None if target is not None else self._locate(node, step)
            if target is None and not isinstance(stored_rows, LocatedContents):
                return stored_rows
            with TemporaryNames() as names:
                places = _compute_once(self.warehouse.queries.run(one.rows, inputs, names).frame)
        except CtsqlError as problem:
            if not _is_lost(problem):
                raise
            return f"cannot be told: {problem.message}"
        if target is not None and target.origin is None:
            rows = _at_places(target.rows, places).drop(FILE_COLUMN, ROW_COLUMN)
            return EarlierRows(target.output_id, rows)
        if target is not None and target.origin is not None:
            origin = target.origin
            return TracedRows(origin.item, origin, _at_places(origin.rows, places), step.at - 1)
        assert isinstance(stored_rows, LocatedContents)  # it is one of the two
        rows = _at_places(stored_rows.rows, places)
        was = isinstance(node, lp.DeletesInput | lp.SelfReference)
        return TracedRows(stored_rows.item, stored_rows, rows, step.at - 1 if was else step.at)

    def _inputs(
        self, text: Text, nodes: Mapping[str, lp.Node], step: "_Step", target_rows: DataFrame
    ) -> dict[Input, RowSet] | str:
        """What a query reads; a sentence where it is not known."""
        inputs: dict[Input, RowSet] = {}
        for use in text.inputs:
            if not isinstance(use, TableUse):
                inputs[use] = SparkRows(target_rows)
                continue
            other = step.body_pass.beside.get(read_id(nodes[use.table]))
            if other is not None:
                inputs[use] = SparkRows(other.rows.select(*backtick_all(use.columns)))
                continue
            stored_rows = self._locate(nodes[use.table], step)
            if isinstance(stored_rows, str):
                return stored_rows
            inputs[use] = SparkRows(self._read(use, nodes[use.table], stored_rows, step.at))
        return inputs

    def _gives_any(
        self, text: Text, nodes: Mapping[str, lp.Node], step: "_Step", target_rows: DataFrame
    ) -> bool:
        """Whether a query gives a row; also where that cannot be told."""
        try:
            inputs = self._inputs(text, nodes, step, target_rows)
            if isinstance(inputs, str):
                return True
            with TemporaryNames() as names:
                return not self.warehouse.queries.run(text, inputs, names).is_empty
        except CtsqlError as problem:
            if not _is_lost(problem):
                raise
            return True

    def _read(
        self, use: TableUse, node: lp.Node, stored_rows: LocatedContents | None, at: int
    ) -> DataFrame:
        if stored_rows is not None:
            return stored_rows.rows.select(*backtick_all(use.columns))
        nothing = self.engine.versions.nothing_at(self.engine.relations.item(read_id(node)), at)
        places = (F.lit("").alias(FILE_COLUMN), F.lit(0).cast("bigint").alias(ROW_COLUMN))
        return nothing.select("*", *places).select(*backtick_all(use.columns))

    def _locate(self, node: lp.Node, step: "_Step") -> LocatedContents | str | None:
        """The rows that a relation has at a step's T; a sentence where these are not known."""
        item, at = self.engine.relations.item(read_id(node)), step.at
        match node:
            case lp.InsertsInput():
                if step.is_snapshot:
                    came = self._whole(item, at)
                else:
                    came = inserted_at(self.warehouse, item, at)
                if not isinstance(came, LocatedContents):
                    return came
                return without_faulty(came, step.body_pass.at_fault)
            case lp.DeletesInput() if not step.is_snapshot:
                return deleted_at(self.warehouse, item, at)
            case lp.DeletesInput():
                return None
            case lp.SelfReference():
                whole = self._whole(item, at - 1)
                victims = step.body_pass.victims.get(item.id)
                return whole if not isinstance(whole, LocatedContents) else without(whole, victims)
            case _:
                return self._whole(item, at)

    def _whole(self, item: Item, at: int) -> LocatedContents | str | None:
        is_view = item.kind is ObjectKind.MATERIALIZED_VIEW
        if is_view and not StoredSources(self.warehouse).is_exact(item, at):
            return f"cannot be told: {item.name} was not written at T = {at}"
        key = (item.id, at)
        if key not in self._contents:
            self._contents[key] = located_contents(self.warehouse, item, at)
        return self._contents[key]

    # ---- lines

    def _show(self, traced_rows: TracedRows, level: int, via: str, note: str | None = None) -> int:
        """Add a line for each of the first rows; returns how many there are in all."""
        names = [c for c in traced_rows.rows.columns if c not in (FILE_COLUMN, ROW_COLUMN)]
        writes = with_writers(self.warehouse, traced_rows.stored_rows, traced_rows.rows)
        first = writes.orderBy(F.col(TIME).asc_nulls_last(), VERSION, FILE_COLUMN, ROW_COLUMN)
        lines = first.select(TIME, VERSION, NOTE, row_json(names).alias("row"))
        sample = lines.limit(SHOWN_MAX).collect()
        count = len(sample) if len(sample) < SHOWN_MAX else traced_rows.rows.count()
        for time, version, why, row in sample:
            notes = "; ".join(filter(None, (why, note, "" if row else _WIDE))) or None
            self._line(level, traced_rows.item, time, version, via, row, count, notes)
        return count

    def _tell(
        self, level: int, item: Item, time: int | None, via: str, rows: int | None, note: str
    ) -> None:
        """Add a line that says what cannot be told."""
        self._line(level, item, time, None, via, None, rows, note)

    def _line(
        self,
        level: int,
        item: Item,
        time: int | None,
        version: int | None,
        via: str,
        row: str | None,
        rows: int | None,
        note: str | None,
    ) -> None:
        at = None if time is None else datetime.fromtimestamp(time / 1000, UTC)
        line = (level, str(item.name), time, at, version, via or None, row, rows, note)
        self.lines.append(line)


@dataclass(frozen=True, slots=True)
class _Step:
    """One query that wrote rows at T.

    Attributes:
        columns: the output's columns that the query's fill, in order; stored: with their types.
        item: what was written. name: what the query is called in ``via``.
        is_snapshot: whether the inputs were read whole.
        body_pass: what a body found beside its inputs.
    """

    query: lp.Query
    columns: list[str]
    stored_columns: tuple[Column, ...]
    item: Item
    at: int
    name: str
    is_snapshot: bool = False
    body_pass: Pass = field(default_factory=Pass)

    @property
    def casts(self) -> dict[int, str]:
        """The types in which columns are stored, by place, where the query gives others.

        And of CHAR, whose values are stored with blanks behind them.
        """
        query_columns = self.query.columns or ()
        pairs = enumerate(zip(query_columns, self.stored_columns, strict=False))
        casts = {i: plain_type(b.type) for i, (a, b) in pairs if a.type != plain_type(b.type)}
        chars = {i: c.type for i, c in enumerate(self.stored_columns) if char_length(c.type)}
        return casts | chars


def _begins_with_copies(task: Item) -> bool:
    """Whether a task began with the rows of a table, or may have with those of another task."""
    if task.backfill is not None:
        return True
    if task.replaces is None:
        return False
    definition = parse(Source(task.definition, f"definition of {task.name}").whole())
    return isinstance(definition, CreateContinualTask) and definition.begin is not None


def _as_reference(node: lp.Node) -> lp.Node:
    """A relation whose contents are read instead of its changes: the columns are the same."""
    if isinstance(node, lp.InsertsInput | lp.DeletesInput | lp.SelfReference):
        return lp.NormalReference(object_id=node.object_id, name=node.name, columns=node.columns)
    return node


def read_id(node: lp.Node) -> str:
    """The id of the object that a relation reads."""
    assert isinstance(
        node,
        lp.InsertsInput | lp.DeletesInput | lp.ChangesInput | lp.NormalReference | lp.SelfReference,
    )
    return node.object_id


def _is_lost(problem: CtsqlError) -> bool:
    """Whether an error says that something is no longer known, and not that all is wrong."""
    return problem.condition in _LOST or problem.message == FILE_MISSING


def _at_places(rows: DataFrame, places: DataFrame) -> DataFrame:
    return rows.join(places, [FILE_COLUMN, ROW_COLUMN], "left_semi")


def row_json(columns: Sequence[str]) -> SparkColumn:
    """Some columns as JSON; NULL where that is long."""
    text = F.to_json(F.struct(*backtick_all(columns)), {"ignoreNullFields": "false"})
    return F.when(F.length(text) <= ROW_CHARACTERS_MAX, text)


def _together(parts: Sequence[TracedRows]) -> TracedRows:
    """Rows of one object as of one T that were found at several places, each once."""
    rows = reduce(DataFrame.unionByName, [part.rows for part in parts])
    first = max((part.stored_rows for part in parts), key=lambda stored_rows: stored_rows.version)
    paths = {path for part in parts for path in part.stored_rows.paths}
    alone = rows.dropDuplicates([FILE_COLUMN, ROW_COLUMN])
    stored_rows = replace(first, paths=tuple(paths))
    return TracedRows(parts[0].item, stored_rows, alone, parts[0].at)


def _target_step(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The step of the wanted rows: some of their columns under the step's names."""
    names = [c.sql for c in wanted_columns(len(columns))]
    if not columns:
        return rows.select(F.lit(1).alias("one")).limit(1)
    target_columns = (F.col(backtick(c)).alias(n) for c, n in zip(columns, names, strict=True))
    return rows.select(*target_columns).distinct()


def _compute_once(rows: DataFrame) -> DataFrame:
    """The rows, computed once: held by the driver if they are few."""
    local_rows = collect_bounded(rows)
    return computed(rows) if isinstance(local_rows, Declined) else local_rows
