"""A view's change plan, and the check that the planner reads the query as Spark does.

The planner has its own parser of Spark's grammar. Before a plan is used, Spark plans the user's
text and the change plan's text of the whole query. Both must be equal
(:mod:`ctsql.runtime.views.plan_equivalence`); otherwise the view has no change plan, with the
reason ROUND_TRIP. The view's commits store the digest of a plan that passed, and other processes do
not check it again.

Tables are empty RDDs in this check. Over an empty local relation Spark would plan every query as an
empty relation, so any two queries would be equal.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import CtsqlError, Declined, bad_option, error
from ctsql.catalog.items import Item
from ctsql.catalog.names import backtick_all, fold
from ctsql.catalog.schemas import plain_type
from ctsql.catalog.spans import Span
from ctsql.planner.ivm import (
    ChangePlan,
    Input,
    PlainView,
    QueryRelation,
    TableUse,
    TemporalPlan,
    Text,
    change_plan,
    name_by,
    temporal_plan,
)
from ctsql.planner.ivm.algebra.reasons import NOTES, REFUSALS
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.nodes import NormalReference, Query, ViewReference, ViewWrite, descend
from ctsql.planner.syntax import RewrittenText, rewrite
from ctsql.runtime.rows.row_set import RowSet, SparkRows
from ctsql.runtime.spark.analyzer import ColumnsOf, UnknownSources
from ctsql.runtime.spark.internals.plan_reader import optimized_plan
from ctsql.runtime.spark.internals.sessions import setting
from ctsql.runtime.spark.start.session import without_merged_subqueries
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.spark.versions import pyspark_release
from ctsql.runtime.views.plan_equivalence import same_plan
from ctsql.runtime.views.refresh_policy import RECOMPUTE_REASONS, Policy
from ctsql.runtime.views.side_table import digest_of
from ctsql.runtime.warehouse.query_engine import QueryEngine, StoredTable
from ctsql.runtime.warehouse.warehouse import Warehouse

CHECKS = 1
"""Must be increased if :meth:`PreparedQuery.refusal` refuses more queries than before."""


class PreparedQuery:
    """A view's query; its plan is made and checked on first use.

    Attributes:
        tables: read by the query, by their names in the plan's queries.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        plan: ViewWrite,
        text: RewrittenText,
        relations: Mapping[str, QueryRelation],
        tables: Mapping[str, StoredTable],
    ) -> None:
        self.tables = tables
        self._warehouse = warehouse
        self._view = plan
        self._text = text
        self._relations = relations

    @property
    def key(self) -> tuple[object, ...]:
        """The query and tables for which it was prepared."""
        return (self._text.text, self._view.columns, repr(self._relations))

    def place(self, reason: Declined) -> Span | None:
        """The place of a reason in the user's text; None if it is in a plain view below."""
        span = reason.span
        if span is None or span.source.text != self._text.text:
            return None
        start, stop = (self._text.origin(o) for o in (span.start, span.stop))
        return Span(self._view.desired.sql.span.source, start, max(start, stop))

    def sentence_of(self, reason: Declined) -> str:
        """A reason as a sentence, with line and column in the view's definition."""
        span = self.place(reason)
        where = "" if span is None else f", at line {span.line}, column {span.column}"
        return f"{reason.reason}: {sentence_of_code(reason.reason)}{where}"

    @cached_property
    def plan_or_reason(self) -> ChangePlan | Declined:
        """The change plan, or the reason why the planner has none."""
        return change_plan(self._text.text, self._relations, [c.name for c in self._view.columns])

    @property
    def plan(self) -> ChangePlan:
        """The change plan; None if there is none."""
        assert isinstance(self.plan_or_reason, ChangePlan)
        return self.plan_or_reason

    @cached_property
    def readings(self) -> int:
        """The number of places at which the query reads a table; 0 without a change plan."""
        plan = self.plan_or_reason
        return plan.readings if isinstance(plan, ChangePlan) else 0

    @property
    def read_tables(self) -> Mapping[str, StoredTable]:
        """The tables and windows that the plan reads."""
        windows = {name: self.tables[w.table] for name, w in self.plan.windows.items()}
        return {**self.tables, **windows}

    @cached_property
    def clock(self) -> TemporalPlan | Declined:
        """When time changes the view, where its query reads the clock."""
        return temporal_plan(self._text.text, self._relations)

    @cached_property
    def _whole_text(self) -> Text:
        """The whole query, printed from the plan's nodes."""
        clock = self.clock if self._view.reads_clock else None
        return clock.whole(0) if isinstance(clock, TemporalPlan) else self.plan.normal()

    @cached_property
    def _types_given(self) -> tuple[str, ...] | None:
        """The types of the query's columns, if Spark reads it as the plan does."""
        return self._warehouse.queries.types_given(self._view, self._whole_text, self.tables)

    @cached_property
    def _are_sums_exact(self) -> bool:
        """Whether no sum that must be exact is of a floating-point type."""
        try:
            types = self._warehouse.queries.types_of(self.plan.former_sums(), self.read_tables)
        except AnalysisException:
            return False  # Spark cannot analyse one of them alone
        return {"float", "double"}.isdisjoint(types)

    @property
    def is_read_alike(self) -> bool:
        """Whether Spark and the planner read the query alike."""
        return self._types_given is not None

    @cached_property
    def digest(self) -> str:
        """Identifies all that :meth:`refusal` depends on, but Spark's settings.

        The engine's sessions keep those that matter at their defaults.
        """
        texts = (self._whole_text, *self.plan.former_sums())
        columns = [(t.object_id, t.columns) for t in self.tables.values()]
        parts = (CHECKS, pyspark_release(), self.key, [t.sql(repr) for t in texts], columns)
        return digest_of(repr(parts))

    @cached_property
    def state_digest(self) -> str:
        """Identifies the contents of the state table; the plan must keep one."""
        state = self.plan.kept_state
        assert state is not None
        text = self.plan.initial_state(state.number).sql(name_by(lambda use: use.table))
        columns = [(name, c.name, c.type) for name, t in self.tables.items() for c in t.columns]
        return digest_of(f"{text}\n{state.columns}\n{sorted(columns)}")

    def refusal(self) -> Declined | None:
        """Why the view cannot follow its tables; None if it can."""
        if isinstance(self.plan_or_reason, Declined):
            return self.plan_or_reason
        if not self.is_read_alike:
            return Declined("ROUND_TRIP")
        # Sums of values that were cast to another type may differ.
        if self._types_given != tuple(plain_type(c.type) for c in self._view.columns):
            return Declined("SCHEMA_CHANGED")
        return None if self._are_sums_exact else Declined("FLOAT_AGGREGATE_NESTED")


def sentence_of_code(code: str) -> str:
    """A code of :meth:`PreparedQuery.refusal` as a sentence."""
    return (RECOMPUTE_REASONS | REFUSALS | NOTES)[code]


def prepared(warehouse: Warehouse, item: Item, at: int | None = None) -> PreparedQuery:
    """The change plan of a view, cached by this process.

    ``at``: the T of its tables' columns; None for now.
    """
    plan = warehouse.relations.bound(item).view
    query = prepared_for(warehouse, plan, at)
    key = query.key
    entry = warehouse.relations.change_plans.get(item.id)
    if entry is not None and entry[0] == key and isinstance(entry[1], PreparedQuery):
        return entry[1]
    warehouse.relations.change_plans[item.id] = (key, query)
    return query


def prepared_for(warehouse: Warehouse, plan: ViewWrite, at: int | None = None) -> PreparedQuery:
    """The change plan of a view that may not exist yet."""
    reader = _Reader(warehouse, at)
    text, relations = reader.read(plan.desired)
    return PreparedQuery(warehouse, plan, text, relations, reader.tables)


def check_followed(warehouse: Warehouse, plan: ViewWrite) -> None:
    """Refuse a view that cannot be followed.

    Raises:
        CLOCK_NOT_COMPARED: it reads the clock outside of comparisons. INVALID_OPTION: its
            REFRESH POLICY is strict, and it has no change plan.
    """
    if plan.reads_clock:
        _check_clock(warehouse, plan)
    if Policy(plan.policy) is Policy.STRICT:
        _check_strict(warehouse, plan)


def _check_strict(warehouse: Warehouse, plan: ViewWrite) -> None:
    """Refuse a strict view without a change plan, with the reason and its place."""
    query = prepared_for(warehouse, plan)
    refusal = query.refusal()
    if refusal is None:
        return
    code, span = refusal.reason, query.place(refusal) or plan.desired.sql.span
    detail = f"The query has no change plan. {code}: {sentence_of_code(code)}."
    hint = "Without the option the view is recomputed and compared."
    raise bad_option(span, "REFRESH POLICY", detail, value="strict", hint=hint)


_COMPARED = (
    "Compare it in WHERE or HAVING, not under OR or NOT: at > now() - INTERVAL 1 DAY, "
    "until >= current_date(), now() BETWEEN since AND until"
)
_TYPES_COMPARED = {"date", "timestamp", "timestamp_ntz"}


def _check_clock(warehouse: Warehouse, plan: ViewWrite) -> None:
    query = prepared_for(warehouse, plan)
    clock = query.clock
    if isinstance(clock, TemporalPlan) and not query.is_read_alike:
        clock = Declined("TEXT_NOT_READ")
    if isinstance(clock, Declined):
        raise not_compared(query, plan, clock)
    if not warehouse.queries.types_of(clock.compared(), query.tables) <= _TYPES_COMPARED:
        raise not_compared(query, plan, None)


def not_compared(query: PreparedQuery, plan: ViewWrite, reason: Declined | None) -> CtsqlError:
    """Return CLOCK_NOT_COMPARED, for a view whose changes by time are unknown.

    ``reason`` is None if the compared value has another type than the clock.
    """
    queries = (n for n in descend(plan.desired) if isinstance(n, Query))
    call = next(call for n in queries for call in n.sql.clocks)
    if reason is None:
        detail = "The compared value is not a DATE, TIMESTAMP or TIMESTAMP_NTZ."
        hint = "Give it such a type: CAST(x AS TIMESTAMP) > now()"
    else:
        detail, hint = f"{reason.reason}: {sentence_of_code(reason.reason)}.", _COMPARED
    span = None if reason is None else query.place(reason)
    return error(
        "CLOCK_NOT_COMPARED",
        span=span or call.span,
        function=call.span.text,
        detail=detail,
        hint=hint,
    )


class _Reader:
    """Texts of queries in which each name of a relation means one object."""

    def __init__(self, warehouse: Warehouse, at: int | None) -> None:
        self.warehouse = warehouse
        self.at = at
        self.tables: dict[str, StoredTable] = {}

    def read(self, query: Query) -> tuple[RewrittenText, dict[str, QueryRelation]]:
        """A query's text, and the objects of its names."""
        relations: dict[str, QueryRelation] = {}
        names = {}
        for ref, node in zip(query.sql.relations, query.relations, strict=True):
            assert isinstance(node, NormalReference | ViewReference)  # a view reads nothing else
            name = fold(str(node.name)).replace("`", "")  # t, or schema.t
            if isinstance(node, ViewReference):
                text, below = self.read(node.query)
                relations[name] = PlainView(text.text, node.columns, below)
            else:
                columns = self._table(name, node).columns
                relations[name] = tuple(replace(c, type=plain_type(c.type)) for c in columns)
            names[ref] = ".".join(backtick_all(name.split(".")))
        return rewrite(query.sql, relation=lambda ref: names[ref]), relations

    def _table(self, name: str, node: NormalReference) -> StoredTable:
        item = self.warehouse.relations.item(node.object_id)
        warehouse, at = self.warehouse, self.at
        there = (
            warehouse.relations.columns_now(item)
            if at is None
            else warehouse.versions.columns_at(item, at)
        )
        types = {fold(c.name): c for c in there}
        columns = tuple(types[fold(c)] for c in node.columns if fold(c) in types)
        table = StoredTable(item.id, columns, node.columns)
        return self.tables.setdefault(name, table)


def types_given(
    engine: QueryEngine,
    session: SparkSession,
    query: Query,
    text: Text,
    tables: Mapping[str, StoredTable],
    at: int = 0,
) -> tuple[str, ...] | None:
    """The types of a query's columns; None if Spark plans the plan's text differently.

    ``at`` is the T of ``now()``.
    """
    sources = _GuardSources(session, tables.values())
    with TemporaryNames() as names:
        inputs = _empty_inputs(text, sources, tables)
        theirs = lower_query(query, Context(session, sources, at, clock_at=at))
        try:
            ours = engine.run(text, inputs, names).frame
        except AnalysisException:
            return None  # a name of the query is ambiguous or missing in the plan's text
        with (
            # Spark turns EXCEPT into a filter if the text shows that both sides are one table.
            setting(session, "spark.sql.optimizer.replaceExceptWithFilter", "false"),
            # Merged subqueries have their columns in the order of each text.
            without_merged_subqueries(session),
        ):
            try:
                is_same = same_plan(optimized_plan(theirs), optimized_plan(ours))
            except RecursionError:
                is_same = False  # too deep to compare
        if not is_same:
            return None
        return tuple(f.dataType.simpleString() for f in theirs.schema)


def types_of(
    engine: QueryEngine,
    session: SparkSession,
    texts: Iterable[Text],
    tables: Mapping[str, StoredTable],
) -> set[str]:
    """The types of the columns of texts over tables."""
    sources = _GuardSources(session, tables.values())
    types = set[str]()
    for text in texts:
        with TemporaryNames() as names:
            schema = engine.run(text, _empty_inputs(text, sources, tables), names).frame.schema
        types |= {f.dataType.simpleString() for f in schema}
    return types


def same_rows(session: SparkSession, one: Query, other: Query, columns_of: ColumnsOf) -> bool:
    """Whether two queries provably return the same rows, by their plans in Spark.

    Queries that read the clock are not compared.
    """
    if any(q.sql.clocks for two in (one, other) for q in descend(two) if isinstance(q, Query)):
        return False
    sources = _NamedSources(session, columns_of)
    plans = [
        optimized_plan(lower_query(query, Context(session, sources, 0, clock_at=0)))
        for query in (one, other)
    ]
    return same_plan(*plans)


def _empty_inputs(
    text: Text, sources: "_GuardSources", tables: Mapping[str, StoredTable]
) -> dict[Input, RowSet]:
    """The empty inputs of a text; each place that reads a table gets the same rows."""
    empty = {name: SparkRows(_nothing(sources, table)) for name, table in tables.items()}
    return {use: empty[use.table] for use in text.inputs if isinstance(use, TableUse)}


def _nothing(sources: "_GuardSources", table: StoredTable) -> DataFrame:
    columns = backtick_all([c.name for c in table.columns])
    return sources.contents(table.object_id, 0).select(*columns)


class _GuardSources(UnknownSources):
    """The tables of a change plan, with the columns of its nodes."""

    def __init__(self, session: SparkSession, tables: Iterable[StoredTable]) -> None:
        columns = {t.object_id: t.columns for t in tables}
        super().__init__(session, lambda object_id: columns[object_id])


class _NamedSources(UnknownSources):
    """Tables that plans cannot confuse: each is filtered by its own id."""

    def contents(self, object_id: str, at: int) -> DataFrame:
        rows = super().contents(object_id, at)
        (first, *_) = backtick_all(rows.columns)
        return rows.where(f"coalesce(CAST({first} AS STRING), '') <> '{object_id}'")
