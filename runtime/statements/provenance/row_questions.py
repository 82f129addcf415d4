"""BLAME: the T and the commit that last wrote each row of an object. WHY: where rows come from."""

from pyspark.sql import DataFrame, functions as F

from ctsql.catalog import times
from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import Item, MaterializedView, View
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.reserved_columns import FILE_COLUMN, NOTE, ROW_COLUMN, TIME, VERSION
from ctsql.planner.binding.binder import qualify
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.syntax.ast import RelationRef, RowQuestion, Select
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.statements.objects.name_resolution import OnNames
from ctsql.runtime.statements.provenance.row_lineage import Line, RowLineage, TracedRows
from ctsql.runtime.warehouse.row_origins import LocatedContents, located_contents, with_writers
from ctsql.runtime.warehouse.sources import StoredSources


class RowQuestions(OnNames):
    """The statements BLAME and WHY."""

    def blame(self, statement: RowQuestion) -> DataFrame:
        """Each row with ``t``, ``at``, ``version`` and ``note``, lazily.

        Raises:
            WRONG_OBJECT_KIND: it has no table. AS_OF_OUT_OF_RANGE. NOT_SUPPORTED: a
            view that is not stored as of that T.
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

    def why(self, statement: RowQuestion) -> list[Line]:
        """Lines of :data:`~ctsql.runtime.statements.provenance.row_lineage.COLUMNS`.

        Raises as BLAME does.
        """
        item = self._object_of(statement.target, "WHY", plain=True)
        at = self._time(item, statement.select)
        with translate_spark_errors():
            if isinstance(item, View):
                answer = RowLineage(self.engine)
                answer.explain_view(item, self._select_rows(statement.select, None, at), at)
                return answer.lines
            stored_rows = self._locate(item, at, statement.select)
            if stored_rows is None:
                return []
            selection = self._select_rows(statement.select, stored_rows, at)
            answer = RowLineage(self.engine)
            answer.explain(TracedRows(item, stored_rows, selection, at))
            return answer.lines

    def _object_of(self, ref: RelationRef, what: str, *, plain: bool = False) -> Item:
        """The object of a name, which has a table, or is a plain view if it may be."""
        catalog = self.engine.refresh_catalog()
        item = catalog.get(qualify(ref, self.names.search_schema), span=ref.span)
        if item.location is None and not (plain and isinstance(item, View)):
            outputs = ", ".join(str(catalog.items[o].name) for o in item.outputs)
            hint = f"Type: {what} one of its outputs: {outputs}"
            if isinstance(item, View):
                hint = "A plain view has no rows of its own: ask for what it reads."
            raise item.wrong_kind("object with a table of its own", hint, ref.span)
        return item.check()

    def _time(self, item: Item, select: Select) -> int:
        """The T that is asked about; the object is advanced to it."""
        text = select.as_of
        as_of = None if text is None else times.parse_time(text, span=select.as_of_span)
        return self.engine.advance_to_read([item], as_of=as_of, as_of_span=select.as_of_span)

    def _locate(self, item: Item, at: int, select: Select) -> LocatedContents | None:
        """The rows as of T with their locations; none before there were any."""
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
        """The rows that are asked for; located ones where these are given."""
        query = self.names.binder().bind_select(select)
        sources = StoredSources(self.engine.warehouse, span=select.as_of_span, as_now=True)
        context = Context(self.engine.session, sources, at)
        external_rows = self.engine.external_rows(query.relations)
        if stored_rows is not None:
            external_rows[0] = stored_rows.rows
        return lower_query(query, context, external_rows)


def _for_display(rows: DataFrame) -> DataFrame:
    """The rows as people see them: first what wrote each, then its columns.

    The names of what wrote them begin with an underscore, another one where a column has that name.
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
