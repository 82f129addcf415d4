"""WHY NOT: at which operator of a view, or of a task's INSERT, a row was lost.

:mod:`ctsql.planner.ivm.lost_rows` says what to count at each operator, Spark counts it in one query
over what the view's query reads as of T. Of a task each INSERT is asked over all that its inputs
hold as of T: whether the row would come, not in which run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.spans import Span
from ctsql.planner import nodes as lp
from ctsql.planner.body_rows import written_rows
from ctsql.planner.ivm import Input, TableUse, Text
from ctsql.planner.ivm.algebra.reasons import Reason
from ctsql.planner.ivm.lineage import whole_query
from ctsql.planner.ivm.lost_rows import Search, Stage, Verdict, rows_and_names, search
from ctsql.planner.rules import transform
from ctsql.planner.syntax import RewrittenText, rewrite
from ctsql.planner.syntax.ast import SqlText
from ctsql.runtime.engine import Engine
from ctsql.runtime.rows.row_set import RowSet, SparkRows
from ctsql.runtime.spark.temp_views import TemporaryNames
from ctsql.runtime.statements.row_lineage import ROW_CHARACTERS_MAX, Reader, read_id, row_json
from ctsql.runtime.warehouse.sources import StoredSources

COLUMNS = (
    ("query", "string"),
    ("operator", "string"),
    ("place", "string"),
    ("rows", "bigint"),
    ("verdict", "string"),
    ("row", "string"),
    ("note", "string"),
)
"""Of a line: an operator, behind what it reads.

``rows`` is how many of its rows may still become the missed one, ``row`` one that did not.
"""
ASKED = "asked"
_WHOLE = "over all that the inputs hold, of which each run saw a part"

Line = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _SearchedQuery:
    """A query, and what it is searched for.

    Attributes:
        name: what the lines call it. columns: the output's that the query's fill, in order.
    """

    name: str
    query: lp.Query
    columns: tuple[str, ...]
    note: str | None = None


class LostRows:
    """One answer to WHY NOT.

    Attributes:
        lines: the answer.
    """

    def __init__(self, engine: Engine, predicate: SqlText, at: int) -> None:
        self.engine = engine
        self.warehouse = engine.warehouse
        self.at = at
        self.lines: list[Line] = []
        self._predicate_sql = predicate
        (relation, *_) = predicate.relations
        self._predicate = rewrite(
            predicate, relation=lambda ref: ASKED if ref == relation else ref.span.text
        )

    def tell_there(self, rows: DataFrame) -> None:
        """Tell of rows that are not missed: those that the predicate is true for."""
        count, example = rows.agg(F.count(F.lit(1)), F.min(row_json(rows.columns))).collect()[0]
        if count:
            note = "what such rows come from: ask WHY"
            self._line("contents", None, None, count, "is there", example, note)

    def explain(self, item: Item) -> None:
        """Answer for a view, plain or not, or a task; a source table has no query."""
        names = tuple(c.name for c in item.columns)
        node = lp.NormalReference(object_id=item.id, name=item.name, columns=names)
        why = self._refusal(lp.Query(sql=self._predicate_sql, relations=(node,)))
        if why is not None:
            self._line("contents", verdict=None, note=f"cannot be told: {why}")
            return
        if item.kind is ObjectKind.VIEW:
            query = transform(self.engine.relations.bound(item).query)
            assert isinstance(query, lp.Query)  # it stays one
            self._search(_SearchedQuery("query", query, tuple(c.name for c in item.columns)))
            return
        if item.kind is ObjectKind.MATERIALIZED_VIEW:
            plan = self.engine.relations.bound(item).view
            time = self.warehouse.schedules.shown_at(item, self.at)
            self.at = self.at if time is None else time
            self._search(_SearchedQuery("query", plan.desired, tuple(c.name for c in plan.columns)))
            return
        task = item
        if item.kind is ObjectKind.TASK_OUTPUT:
            task = self.engine.relations.item(item.owner)
        _, body = self.engine.relations.in_force(task, self.at)
        for number, statement in enumerate(body.transaction.statements, 1):
            if isinstance(statement, lp.Delete) and read_id(statement.of) == item.id:
                note = "may take rows away; it is not searched"
                self._line(f"statement {number}: DELETE", verdict=None, note=note)
        for one in written_rows(body, item.id):
            if one.why_untold or one.query is None:
                self._line(one.statement, verdict=None, note=f"cannot be told: {one.why_untold}")
                continue
            columns = tuple(c.name for c in one.columns)
            self._search(_SearchedQuery(one.statement, one.query, columns, _WHOLE))

    def _refusal(self, query: lp.Query) -> str | None:
        """Why Spark and the planner do not read a query alike; None if they do."""
        reader = Reader(self.engine, self.at)
        text, relations = reader.read(query)
        return reader.refusal(query, whole_query(text.text, relations))

    def _search(self, target: _SearchedQuery) -> None:
        reader = Reader(self.engine, self.at)
        text, relations = reader.read(target.query)
        why = reader.refusal(target.query, whole_query(text.text, relations))
        search_plan = search(self._predicate.text, ASKED, text.text, target.columns, relations)
        if why is not None or isinstance(search_plan, Reason):
            if isinstance(search_plan, Reason):
                why = search_plan.sentence
            self._line(target.name, verdict=None, note=f"cannot be told: {why}")
            return
        with TemporaryNames() as names:
            counts = self._run(search_plan.counts(), reader.nodes, names).frame
            sums = counts.groupBy("stage").sum("candidates", "kept").collect()
            both = {int(row[0]): (int(row[1]), int(row[2])) for row in sums}
            candidates = [both[i][0] for i in range(len(search_plan.stages))]
            verdicts = search_plan.verdicts(candidates, [both[i][1] for i in range(len(both))])
            for i, verdict in enumerate(verdicts):
                example = self._example(search_plan, i, verdict, candidates, reader.nodes, names)
                stage = search_plan.stages[i]
                self._line(
                    target.name,
                    stage.operator if stage.table is None else self._scan(stage, reader.nodes),
                    _place(stage.span, text),
                    candidates[i],
                    verdict.value,
                    example,
                    self._advice(stage, verdict, reader.nodes) or target.note,
                )

    def _run(self, text: Text, nodes: Mapping[str, lp.Node], names: TemporaryNames) -> RowSet:
        inputs: dict[Input, RowSet] = {}
        came = {n.object_id for n in nodes.values() if isinstance(n, lp.InsertsInput)}
        for use in text.inputs:
            assert isinstance(use, TableUse)  # nothing else is read
            node = nodes[use.table]
            rows = StoredSources(self.warehouse, as_now=True).contents(read_id(node), self.at)
            if isinstance(node, lp.DeletesInput) and node.object_id in came:
                rows = rows.limit(0)  # all that an input holds has come, and nothing has gone
            inputs[use] = SparkRows(rows)
        return self.warehouse.queries.run(text, inputs, names)

    def _example(
        self,
        search_plan: Search,
        number: int,
        verdict: Verdict,
        candidates: list[int],
        nodes: Mapping[str, lp.Node],
        names: TemporaryNames,
    ) -> str | None:
        """A row that was lost at a stage, or that has other values there, as JSON."""
        stage = search_plan.stages[number]
        if verdict is Verdict.OTHER_VALUES:
            node = stage.pushdown_candidates
        elif verdict is Verdict.LOST:
            node = search_plan.stages[next(i for i in stage.below if candidates[i])].candidates
        else:
            return None
        text, column_names = rows_and_names(node)
        frame = self._run(text, nodes, names).frame
        columns = (F.col(c).alias(n) for c, n in zip(text.names, column_names, strict=True))
        json = (
            F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
            if column_names
            else F.lit("{}")
        )
        rows = frame.select(F.when(F.length(json) <= ROW_CHARACTERS_MAX, json)).limit(1).collect()
        return str(rows[0][0]) if rows and rows[0][0] is not None else None

    def _scan(self, stage: Stage, nodes: Mapping[str, lp.Node]) -> str:
        return f"Scan {self._item(stage, nodes).name}"

    def _item(self, stage: Stage, nodes: Mapping[str, lp.Node]) -> Item:
        assert stage.table is not None
        return self.engine.relations.item(read_id(nodes[stage.table]))

    def _advice(self, stage: Stage, verdict: Verdict, nodes: Mapping[str, lp.Node]) -> str | None:
        """What to ask next, of a task or a view that lacks the row."""
        if verdict is not Verdict.NEVER_THERE or stage.table is None or not stage.predicate:
            return None
        item = self._item(stage, nodes)
        return f"ask: WHY NOT {item.name} WHERE {stage.predicate}" if item.is_run else None

    def _line(
        self,
        query: str,
        operator: str | None = None,
        place: str | None = None,
        rows: int | None = None,
        verdict: str | None = None,
        row: str | None = None,
        note: str | None = None,
    ) -> None:
        self.lines.append((query, operator, place, rows, verdict, row, note))


def _place(span: Span | None, text: RewrittenText) -> str | None:
    """Line and column in the definition; None for what is in a plain view below it."""
    if span is None or span.source.text != text.text:
        return None
    place = text.span.source.at(text.origin(span.start))
    return f"line {place.line}, column {place.column}"
