"""BLAME: the commit that last wrote each row. WHY: the rows that a view's row comes from.

WHY goes level by level, down to tables and the outputs of tasks. A view's rows come from what its
query reads as of the same T. A task's row ends the answer: it comes from changes of the task's
inputs at its T, and BLAME continues there. Queries over the locations of rows
(:mod:`ctsql.planner.ivm.lineage`) find each level.

[exact-or-noted] listed rows are exact. If something cannot be determined, a line's note reports it.
[bounded-rows] the driver takes at most ``SHOWN_MAX`` rows a line of the plan, of bounded width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F

from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError, Declined, not_supported
from ctsql.catalog.items import Item, MaterializedView, ObjectKind, View
from ctsql.catalog.names import backtick, backtick_all, fold
from ctsql.catalog.reserved_columns import FILE_COLUMN, NOTE, ROW_COLUMN, TIME, VERSION
from ctsql.catalog.schemas import Column, char_length, plain_type
from ctsql.planner import nodes as lp
from ctsql.planner.binding.binder import qualify
from ctsql.planner.ivm import Input, PlainView, QueryRelation, TableUse, Text
from ctsql.planner.ivm.algebra.reasons import REFUSALS
from ctsql.planner.ivm.lineage import Contribution, trace, wanted_columns, whole_query
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query, rewrite_text
from ctsql.planner.syntax import RewrittenText
from ctsql.planner.syntax.ast import RelationRef, RowQuestion, Select
from ctsql.runtime.engine import Engine
from ctsql.runtime.rows.collect import collect_bounded
from ctsql.runtime.rows.row_set import RowSet, SparkRows, computed
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.failures.storage_errors import FILE_MISSING
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.statements.objects.name_resolution import OnNames
from ctsql.runtime.views.change_plans import types_given
from ctsql.runtime.warehouse.query_engine import StoredTable
from ctsql.runtime.warehouse.row_origins import (
    LocatedContents,
    located_contents,
    with_writers,
)
from ctsql.runtime.warehouse.sources import StoredSources

COLUMNS = (
    ("level", "int"),
    ("object", "string"),
    ("t", "bigint"),
    ("time", "timestamp"),
    ("version", "bigint"),
    ("via", "string"),
    ("row", "string"),
    ("rows", "bigint"),
    ("note", "string"),
)
"""Of a line; ``time`` is the instant of ``t``, ``rows`` the number of rows at that place."""
SHOWN_MAX = 100
ROW_CHARACTERS_MAX = 8192
_WIDE = f"the row has more than {ROW_CHARACTERS_MAX} letters"
_OF_TASK = "computed by a task from its inputs' changes at this T; continue with BLAME"
_VIA = "query"
_LOST = ("HISTORY_LOST", "AS_OF_OUT_OF_RANGE", "NOT_SUPPORTED", "DATA_ERROR")  # lost history

LineageRow = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class TracedRows:
    """Some located rows of an object's contents as of T."""

    item: Item
    stored_rows: LocatedContents
    rows: DataFrame
    at: int


@dataclass
class _Reader:
    """The text of a query with a name for each relation; ``nodes`` are their meaning."""

    engine: Engine
    at: int
    nodes: dict[str, lp.Node] = field(default_factory=dict)

    def read(self, query: lp.Query) -> tuple[RewrittenText, dict[str, QueryRelation]]:
        """The text as of T, and the relations of its names."""
        relations: dict[str, QueryRelation] = {}
        names = {}
        for ref, node in zip(query.sql.relations, query.relations, strict=True):
            name = f"r{len(self.nodes)}"
            self.nodes[name] = node
            names[ref] = name
            if isinstance(node, lp.ViewReference):
                text, below = self.read(node.query)
                relations[name] = PlainView(text.text, node.columns, below)
            else:
                assert isinstance(node, lp.RelationLeaf)  # a definition reads no files
                columns = self._columns(node)
                relations[name] = tuple(replace(c, type=plain_type(c.type)) for c in columns)
        warehouse = self.engine.warehouse
        context = Context(self.engine.session, StoredSources(warehouse), self.at, clock_at=self.at)
        return rewrite_text(query.sql, names, context), relations

    def refusal(self, query: lp.Query, whole: Text | Declined) -> str | None:
        """Why a query is not traceable; None if Spark reads it as the planner does (``whole``)."""
        if isinstance(whole, Declined):
            return REFUSALS[whole.reason]
        tables = {
            use.table: StoredTable(node.object_id, self._columns(node), node.columns)
            for use in whole.inputs
            if isinstance(use, TableUse)
            and isinstance(node := self.nodes[use.table], lp.RelationLeaf)
        }
        session = self.engine.session
        alike = types_given(self.engine.queries, session, query, whole, tables, self.at)
        return None if alike is not None else "Spark may read this query differently"

    def _columns(self, node: lp.RelationLeaf) -> tuple[Column, ...]:
        item = self.engine.relations.item(node.object_id)
        columns = self.engine.versions.columns_at(item, self.at)
        by_name = {fold(c.name): c for c in columns}
        return tuple(by_name[fold(c)] for c in node.columns if fold(c) in by_name)


class RowLineage:
    """One answer to WHY; ``lines`` are in the order in which they are found."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.warehouse = engine.warehouse
        self.lines: list[LineageRow] = []
        self._contents: dict[tuple[str, int], LocatedContents | None] = {}

    def explain(self, traced_rows: TracedRows) -> None:
        """Answer for some rows of an object."""
        self._show(traced_rows, 0, "")
        self._follow(traced_rows, 1)

    def explain_view(self, item: Item, rows: DataFrame, at: int) -> None:
        """Answer for some rows of a plain view."""
        first = rows.select(_row_json(rows.columns)).limit(SHOWN_MAX).collect()
        count = len(first) if len(first) < SHOWN_MAX else rows.count()
        for (row,) in first:
            self._line(0, item, None, row=row, rows=count, note=None if row else _WIDE)
        query = self.engine.relations.bound(item).query
        columns = [c.name for c in item.columns]
        self._trace(_Step(query, columns, item.columns, item, at), rows, 1)

    def _follow(self, traced_rows: TracedRows, level: int) -> None:
        if not isinstance(traced_rows.item, MaterializedView):
            return
        plan = self.engine.relations.bound(traced_rows.item).view
        at = self.warehouse.schedules.shown_at(traced_rows.item, traced_rows.at)
        if at is None:
            return
        columns = [c.name for c in plan.columns]
        step = _Step(plan.desired, columns, tuple(plan.columns), traced_rows.item, at)
        self._trace(step, traced_rows.rows, level)

    def _trace(self, step: "_Step", rows: DataFrame, level: int) -> None:
        reader = _Reader(self.engine, step.at)
        text, relations = reader.read(step.query)
        whole = whole_query(text.text, relations)
        why = reader.refusal(step.query, whole)
        if why is not None or isinstance(whole, Declined):
            unknown = f"cannot be determined: {why}"
            self._line(level, step.item, step.at, via=_VIA, note=unknown)
            return
        lineage = trace(whole, step.casts)
        target_rows = _compute_once(
            _target_step(rows, [step.columns[i] for i in lineage.compared_columns])
        )
        note: str | None = None
        if lineage.inexact:
            names = ", ".join(step.columns[i] for i in lineage.inexact)
            note = f"{names} is not compared, as it depends on the order of rows"
        groups: dict[str, list[TracedRows]] = {}
        for one in lineage.contributions:
            via = " > ".join((_VIA, *one.operators))
            came = self._contributing(one, reader.nodes, step, target_rows)
            if isinstance(came, str):
                item = self.engine.relations.item(_read_id(reader.nodes[one.table]))
                self._line(level, item, None, via=via, note=came)
            elif came is not None and self._show(came, level, via, note):
                groups.setdefault(came.item.id, []).append(came)
        for parts in groups.values():
            self._follow(_together(parts), level + 1)

    def _contributing(
        self,
        one: Contribution,
        nodes: Mapping[str, lp.Node],
        step: "_Step",
        target_rows: DataFrame,
    ) -> TracedRows | str | None:
        """The rows at one place; a sentence if unknown, None if there are none."""
        if one.rows is None:
            return f"cannot be determined: {one.why_unknown}"
        try:
            inputs = self._inputs(one.rows, nodes, step, target_rows)
            if isinstance(inputs, str):
                return inputs
            stored_rows = self._locate(nodes[one.table], step)
            if not isinstance(stored_rows, LocatedContents):
                return stored_rows
            with TemporaryNames() as names:
                places = _compute_once(self.warehouse.queries.run(one.rows, inputs, names).frame)
        except CtsqlError as problem:
            if problem.condition not in _LOST and problem.message != FILE_MISSING:
                raise
            return f"cannot be determined: {problem.message}"
        rows = stored_rows.rows.join(places, [FILE_COLUMN, ROW_COLUMN], "left_semi")
        return TracedRows(stored_rows.item, stored_rows, rows, step.at)

    def _inputs(
        self, text: Text, nodes: Mapping[str, lp.Node], step: "_Step", target_rows: DataFrame
    ) -> dict[Input, RowSet] | str:
        inputs: dict[Input, RowSet] = {}
        for use in text.inputs:
            if not isinstance(use, TableUse):
                inputs[use] = SparkRows(target_rows)
                continue
            stored_rows = self._locate(nodes[use.table], step)
            if isinstance(stored_rows, str):
                return stored_rows
            inputs[use] = SparkRows(self._read(use, nodes[use.table], stored_rows, step.at))
        return inputs

    def _read(
        self, use: TableUse, node: lp.Node, stored_rows: LocatedContents | None, at: int
    ) -> DataFrame:
        if stored_rows is not None:
            return stored_rows.rows.select(*backtick_all(use.columns))
        nothing = self.engine.versions.nothing_at(self.engine.relations.item(_read_id(node)), at)
        places = (F.lit("").alias(FILE_COLUMN), F.lit(0).cast("bigint").alias(ROW_COLUMN))
        return nothing.select("*", *places).select(*backtick_all(use.columns))

    def _locate(self, node: lp.Node, step: "_Step") -> LocatedContents | str | None:
        """The rows of a relation at a step's T; a sentence if unknown."""
        item, at = self.engine.relations.item(_read_id(node)), step.at
        is_view = isinstance(item, MaterializedView)
        if is_view and not StoredSources(self.warehouse).is_exact(item, at):
            return f"cannot be determined: {item.name} was not written at T = {at}"
        key = (item.id, at)
        if key not in self._contents:
            self._contents[key] = located_contents(self.warehouse, item, at)
        return self._contents[key]

    def _show(self, traced_rows: TracedRows, level: int, via: str, note: str | None = None) -> int:
        """Add a line for each of the first rows; returns the number of all."""
        names = [c for c in traced_rows.rows.columns if c not in (FILE_COLUMN, ROW_COLUMN)]
        writes = with_writers(self.warehouse, traced_rows.stored_rows, traced_rows.rows)
        first = writes.orderBy(F.col(TIME).asc_nulls_last(), VERSION, FILE_COLUMN, ROW_COLUMN)
        lines = first.select(TIME, VERSION, NOTE, _row_json(names).alias("row"))
        sample = lines.limit(SHOWN_MAX).collect()
        count = len(sample) if len(sample) < SHOWN_MAX else traced_rows.rows.count()
        is_task = traced_rows.item.kind in (ObjectKind.CONTINUAL_TASK, ObjectKind.TASK_OUTPUT)
        task = _OF_TASK if is_task else ""
        for time, version, why, row in sample:
            notes = "; ".join(filter(None, (why, note, task, "" if row else _WIDE))) or None
            self._line(level, traced_rows.item, time, version, via, row, count, notes)
        return count

    def _line(
        self,
        level: int,
        item: Item,
        time: int | None,
        version: int | None = None,
        via: str = "",
        row: str | None = None,
        rows: int | None = None,
        note: str | None = None,
    ) -> None:
        instant = None if time is None else datetime.fromtimestamp(time / 1000, UTC)
        line = (level, str(item.name), time, instant, version, via or None, row, rows, note)
        self.lines.append(line)


@dataclass(frozen=True, slots=True)
class _Step:
    """The query of a view, as of T; ``stored_columns`` have the stored types."""

    query: lp.Query
    columns: list[str]
    stored_columns: tuple[Column, ...]
    item: Item
    at: int

    @property
    def casts(self) -> dict[int, str]:
        """The stored types of columns, by place, if the query has others; CHAR is padded."""
        query_columns = self.query.columns or ()
        pairs = enumerate(zip(query_columns, self.stored_columns, strict=False))
        casts = {i: plain_type(b.type) for i, (a, b) in pairs if a.type != plain_type(b.type)}
        chars = {i: c.type for i, c in enumerate(self.stored_columns) if char_length(c.type)}
        return casts | chars


def _read_id(node: lp.Node) -> str:
    assert isinstance(node, lp.RelationLeaf)
    return node.object_id


def _row_json(columns: Sequence[str]) -> SparkColumn:
    """Columns as JSON; NULL if that is long."""
    text = F.to_json(F.struct(*backtick_all(columns)), {"ignoreNullFields": "false"})
    return F.when(F.length(text) <= ROW_CHARACTERS_MAX, text)


def _together(parts: Sequence[TracedRows]) -> TracedRows:
    """Rows of one object as of one T from several places, each once."""
    rows = reduce(DataFrame.unionByName, [part.rows for part in parts])
    first = max((part.stored_rows for part in parts), key=lambda stored_rows: stored_rows.version)
    paths = {path for part in parts for path in part.stored_rows.paths}
    alone = rows.dropDuplicates([FILE_COLUMN, ROW_COLUMN])
    stored_rows = replace(first, paths=tuple(paths))
    return TracedRows(parts[0].item, stored_rows, alone, parts[0].at)


def _target_step(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    names = [c.sql for c in wanted_columns(len(columns))]
    if not columns:
        return rows.select(F.lit(1).alias("one")).limit(1)
    target_columns = (F.col(backtick(c)).alias(n) for c, n in zip(columns, names, strict=True))
    return rows.select(*target_columns).distinct()


def _compute_once(rows: DataFrame) -> DataFrame:
    """The rows, computed once, in the driver if they are few."""
    local_rows = collect_bounded(rows)
    return computed(rows) if isinstance(local_rows, Declined) else local_rows


class RowQuestions(OnNames):
    """The statements BLAME and WHY."""

    def blame(self, statement: RowQuestion) -> DataFrame:
        """Each row with ``t``, ``at``, ``version`` and ``note``, lazily.

        Raises:
            WRONG_OBJECT_KIND: it has no table. NOT_SUPPORTED: a view that is not stored as of that
                T. AS_OF_OUT_OF_RANGE.
        """
        item = self._object_of(statement.target, "BLAME")
        at = self._time(item, statement.select)
        with translate_spark_errors():
            stored_rows = self._locate(item, at, statement.select)
            if stored_rows is None:
                rows = self.engine.versions.nothing_at(item, at)
                nothing = (F.lit(None).cast("bigint").alias(c) for c in (TIME, VERSION))
                answer = rows.select("*", *nothing, F.lit(None).cast("string").alias(NOTE))
            else:
                selection = self._select_rows(statement.select, stored_rows, at)
                answer = with_writers(self.engine.warehouse, stored_rows, selection)
            return _for_display(answer)

    def why(self, statement: RowQuestion) -> list[LineageRow]:
        """Lines of :data:`COLUMNS`; raises as BLAME does."""
        item = self._object_of(statement.target, "WHY", plain=True)
        at, answer = self._time(item, statement.select), RowLineage(self.engine)
        with translate_spark_errors():
            if isinstance(item, View):
                answer.explain_view(item, self._select_rows(statement.select, None, at), at)
            elif (stored_rows := self._locate(item, at, statement.select)) is not None:
                selection = self._select_rows(statement.select, stored_rows, at)
                answer.explain(TracedRows(item, stored_rows, selection, at))
        return answer.lines

    def _object_of(self, ref: RelationRef, what: str, *, plain: bool = False) -> Item:
        """The object of a name; it has a table, or is a plain view if ``plain``."""
        catalog = self.engine.refresh_catalog()
        item = catalog.get(qualify(ref, self.names.search_schema), span=ref.span)
        if item.location is None and not (plain and isinstance(item, View)):
            outputs = ", ".join(str(catalog.items[o].name) for o in item.outputs)
            hint = f"Type: {what} one of its outputs: {outputs}"
            if isinstance(item, View):
                hint = "A plain view stores no rows: name an object that it reads."
            raise item.wrong_kind("object with a table of its own", hint, ref.span)
        return item.check()

    def _time(self, item: Item, select: Select) -> int:
        """The requested T; the object is advanced to it."""
        text = select.as_of
        as_of = None if text is None else times.parse_time(text, span=select.as_of_span)
        return self.engine.advance_to_read([item], as_of=as_of, as_of_span=select.as_of_span)

    def _locate(self, item: Item, at: int, select: Select) -> LocatedContents | None:
        """The located rows as of T; None before the first."""
        sources = StoredSources(self.engine.warehouse, span=select.as_of_span, as_now=True)
        sources.contents(item.id, at)  # raises what a SELECT would
        if isinstance(item, MaterializedView) and not sources.is_exact(item, at):
            what = f"this question about {item.name} as of T = {at}"
            why = "The view was not written at that T, so no commit wrote these rows."
            hint = "Leave AS OF out, or ask for a T of system.refreshes."
            raise not_supported(select.as_of_span, what, why=why, hint=hint)
        return located_contents(self.engine.warehouse, item, at)

    def _select_rows(
        self, select: Select, stored_rows: LocatedContents | None, at: int
    ) -> DataFrame:
        """The requested rows, located if ``stored_rows`` are given."""
        query = self.names.binder().bind_select(select)
        sources = StoredSources(self.engine.warehouse, span=select.as_of_span, as_now=True)
        context = Context(self.engine.session, sources, at)
        external_rows = self.engine.external_rows(query.relations)
        if stored_rows is not None:
            external_rows[0] = stored_rows.rows
        return lower_query(query, context, external_rows)


def _for_display(rows: DataFrame) -> DataFrame:
    """The rows for display: first what wrote each, then its columns.

    The names of the first columns begin with an underscore, or more if a column has that name.
    """
    columns = [c for c in rows.columns if c not in (TIME, VERSION, NOTE, FILE_COLUMN, ROW_COLUMN)]
    names = {fold(c) for c in columns}

    def free(name: str) -> str:
        return free(f"_{name}") if name in names else name

    return rows.select(
        F.col(TIME).alias(free("_t")),
        F.timestamp_millis(F.col(TIME)).alias(free("_time")),
        F.col(VERSION).alias(free("_version")),
        F.col(NOTE).alias(free("_note")),
        *(F.col(backtick(c)) for c in columns),
    )
