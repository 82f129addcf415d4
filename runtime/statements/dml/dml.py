"""INSERT, UPDATE, DELETE and MERGE on tables: Spark runs the user's statement.

In its text only the target is replaced, by the table's folder, and each relation that it reads, by
a view as of the newest T. On a local disk the statement holds the table's commit lock, because
Delta alone does not exclude a second process there.

For an INSERT of constants Spark only evaluates the rows; the driver writes them into one file,
without a job, and Delta's transaction commits it, as an append without conflicts. Spark runs the
statement if the result might differ: rows of tables, columns that Delta computes, pads or counts,
CHECK constraints, partitions, a forbidden NULL. Nothing has been written then.

Spark answers user queries over few rows without generated code: compiling Java takes longer than
computing a thousand rows. Queries that multiply rows keep generated code; the text decides, because
only time depends on it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import Declined, error, not_supported
from ctsql.catalog.items import Item, ObjectKind, Table
from ctsql.catalog.names import quote, table_at
from ctsql.catalog.spans import Span
from ctsql.planner.binding.binder import Binder, qualify
from ctsql.planner.lowering.context import Context, temporary_view
from ctsql.planner.lowering.queries import relation_rows, spark_text, temporary_views
from ctsql.planner.nodes import External, NormalReference, Query, descend
from ctsql.planner.syntax.ast import Dml, Edit, RelationRef, SqlText
from ctsql.runtime.delta.clones import complete, constants
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.engine import Engine, read_objects
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.protocol import Conflict
from ctsql.runtime.rows.prepared_rows import WITHOUT_CODE_MAX
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.failures.messages import thrown_by
from ctsql.runtime.spark.internals.plans import AnalysedInsert, empty
from ctsql.runtime.spark.internals.sessions import setting, without_code
from ctsql.runtime.statements.dml.transaction import OpenTransaction
from ctsql.runtime.warehouse.replaced_views import check_columns
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.stores.copy_files import insert_rows
from ctsql.runtime.warehouse.table_checks import check_table_to_write
from ctsql.runtime.warehouse.times.multi_table_commit import alone

_COMPACTS = "delta.autoOptimize"
"""Prefix of the table properties that make Spark's own INSERT compact files."""


def append_constants(table: DeltaTable, version: int, statement: AnalysedInsert) -> int | Declined:
    """Append the rows of a statement to the newest version in one commit; returns their number.

    Declined if Spark must run it; the table is unchanged then.
    """
    appended = complete(table, version, statement.rows)
    rows = appended if isinstance(appended, Declined) else constants(appended)
    if isinstance(rows, Declined):
        return rows
    count = int(rows.arrow.num_rows)
    txn = table.begin()
    if not count or any(key.startswith(_COMPACTS) for key in txn.metadata.configuration):
        return Declined("there are no rows, or Delta compacts after them")
    file = txn.stage_local(rows)
    if isinstance(file, Declined):
        return file
    faults.point("statement_staged")
    txn.add_files([file])
    size = json.loads(file.action)["add"]["size"]
    try:
        txn.commit_statement(
            table.gateway.append_operation(),
            {"numFiles": 1, "numOutputRows": count, "numOutputBytes": size},
        )
    except Conflict:
        table.discard([file.path])
        return Declined("the table was changed meanwhile")
    return count


RunSql = Callable[[str], int | Declined]
"""Runs a text for Spark; returns the number of affected rows, -1 if unknown."""
Outcome = TypeVar("Outcome")
NAME_NOT_FOUND = Declined("Delta has not found a name, and does not say which")
_LOST_ERROR = "Cannot find main error class 'DELTA_MERGE_"
"""Spark's message for an error of Delta's MERGE that lacks its text."""


def run_on_table(
    engine: Engine,
    text: SqlText,
    target: RelationRef,
    location: str,
    search_schema: str,
    *,
    parameters: tuple[str, ...] = (),
    columns: Sequence[str] | None = None,
    within: OpenTransaction | None = None,
    run: Callable[[str], Outcome],
    view: str = "",
) -> Outcome:
    """Run a statement whose target is the Delta table in a folder; returns the result of ``run``.

    Args:
        columns: the target's, if its name may qualify them and no alias follows it.
        within: the transaction whose T and changes it reads; None for the newest T.
        run: runs the text for Spark. view: of Spark, the target instead of the table.
    """
    binder = Binder(
        engine.catalog,
        search_schema,
        None,
        columns_of=engine.relations.columns_now,
        external_kind=engine.external.kind,
        runs_once=True,
    )
    nodes = [binder.relation(ref, {}) for ref in text.relations]
    items = [engine.relations.item(i) for node in nodes for i in read_objects(node)]
    as_of, own_writes = (None, {}) if within is None else (within.at, within.own_writes)
    at = engine.advance_to_read(items, as_of=as_of) if items else 0
    for node in nodes:
        check_columns(engine.warehouse, node)
    meaning = binder.names([text], zip(text.relations, nodes, strict=True), {target: columns})
    alias = "" if columns is None else f" AS {quote(meaning.alias(target))}"
    edit = Edit(span=target.span, text=f"{view or table_at(location)}{alias}")
    edited_text = meaning.applied(replace(text, edits=(*text.edits, edit)))
    with translate_spark_errors():
        context = Context(
            engine.session, StoredSources(engine.warehouse, own_writes=own_writes), at
        )
        read = relation_rows(nodes, context, engine.external_rows(nodes))
        frames = [relation.frame for relation in read]
        with (
            temporary_views(dict(zip(edited_text.relations, frames, strict=True))) as names,
            spark_text(edited_text, names, context, parameters) as sql,
        ):
            return run(sql)


def write_source(
    engine: Engine,
    statement: Dml,
    search_schema: str,
    parameters: tuple[str, ...],
    *,
    within: OpenTransaction | None,
) -> tuple[str, int]:
    """Run DML on a table, within its open transaction if any; the status line and the row count.

    The count is -1 if unknown. Raises NOT_SUPPORTED for UPDATE and DELETE that read another
    relation, which Delta does not run.
    """
    item = target_table(engine, statement.target, search_schema)
    if statement.verb in ("UPDATE", "DELETE") and statement.text.relations:
        what = f"another relation in {statement.verb} of a table"
        then = "DELETE" if statement.verb == "DELETE" else "UPDATE SET ..."
        hint = f"Type: MERGE INTO {item.name} USING (SELECT ...) AS s ON ... WHEN MATCHED THEN "
        raise not_supported(statement.text.relations[0].span, what, hint=hint + then)
    has_alias = statement.verb == "INSERT" or statement.target.aliased
    columns = None if has_alias else [c.name for c in engine.relations.columns_now(item)]

    def put(text: SqlText, location: str, run: Callable[[str], Outcome], view: str = "") -> Outcome:
        return run_on_table(
            engine,
            text,
            statement.target,
            location,
            search_schema,
            parameters=parameters,
            columns=columns,
            within=within,
            run=run,
            view=view,
        )

    def write(location: str, run: RunSql) -> int | Declined:
        rows = put(statement.text, location, run)
        if rows is NAME_NOT_FOUND:
            there = engine.relations.columns_now(item)
            with temporary_view(empty(engine.session, there)) as view:
                put(statement.text, location, lambda sql: engine.session.sql(sql).schema, view)
            raise error("INVALID_STATEMENT", span=statement.span, message=NAME_NOT_FOUND.reason)
        return rows

    rows = write_table(engine, item, write, within=within, verb=statement.verb)
    return _status(statement.verb, rows), rows


TableWrite = Callable[[str, RunSql], int | Declined]
"""Runs a statement on the table in a folder; returns what running its text returns."""


def write_table(
    engine: Engine, item: Item, write: TableWrite, *, within: OpenTransaction | None, verb: str
) -> int:
    """Write a table in one commit, or in the open transaction; the row count, -1 if unknown."""
    if within is not None:
        return _write_within(engine, item, write, within, verb)
    with alone(engine.timeline, item, engine.mint) as location, engine.leaving_intents():
        rows = _write_alone(engine, location, write, verb)
    faults.point("source_committed")
    return rows


def _write_alone(engine: Engine, location: str, write: TableWrite, verb: str) -> int:
    table = engine.gateway.table(location)
    before = table.version()

    def run(text: str) -> int | Declined:
        if verb != "INSERT":
            return _change(engine, text)
        insert = _insert_of(table, before, text)
        row_count = append_constants(table, before, insert)
        return _count_affected(insert.run()) if isinstance(row_count, Declined) else row_count

    rows = write(location, run)
    assert not isinstance(rows, Declined)  # Spark takes every statement
    return _row_count(table, before, rows)


def _write_within(
    engine: Engine, item: Item, write: TableWrite, within: OpenTransaction, verb: str
) -> int:
    appends = within.appends(item) if verb == "INSERT" else None
    if appends is not None:
        staged = write(
            appends.origin.location,
            lambda text: appends.stage(_insert_of(appends.origin, appends.version, text).rows),
        )
        if not isinstance(staged, Declined):
            return staged
    location = within.location(item)
    table = engine.gateway.table(location)
    before = table.version()
    rows = write(location, lambda text: _change(engine, text))
    assert not isinstance(rows, Declined)  # Spark takes every statement
    return _row_count(table, before, rows)


def _change(engine: Engine, text: str) -> int | Declined:
    """Let Spark run a statement; declined if its error lacks the name that was not found."""
    try:
        return _count_affected(engine.session.sql(text))
    except (PySparkException, Py4JJavaError) as problem:
        if _LOST_ERROR in thrown_by(problem)[0].text:
            return NAME_NOT_FOUND
        raise


def _row_count(table: DeltaTable, before: int, rows: int) -> int:
    """The number of rows that a statement reports; else the rows that its commits added."""
    if rows >= 0:
        return rows
    counts = [table.commit_at(v) for v in range(before + 1, table.version() + 1)]
    return sum(a.rows_count or 0 for c in counts for a in c.adds if a.data_change)


def append_rows(
    engine: Engine,
    item: Item,
    rows: DataFrame,
    *,
    within: OpenTransaction | None,
    span: Span | None = None,
) -> int:
    """Append rows with some of the table's columns in one commit; returns their number."""

    def write(location: str, run: RunSql) -> int | Declined:
        return insert_rows(location, rows, span, run)

    return write_table(engine, item, write, within=within, verb="INSERT")


def _insert_of(table: DeltaTable, version: int, text: str) -> AnalysedInsert:
    """An analysed INSERT; its target is resolved again if the table's metadata changed."""
    metadata = table.metadata_at(version)
    entry = table.insert_target
    target = entry[1] if entry is not None and entry[0] is metadata else None
    statement = AnalysedInsert(table.gateway.session, text, target)
    if target is None:
        table.insert_target = metadata, statement.target
    return statement


def _count_affected(result: DataFrame) -> int:
    if "num_affected_rows" not in result.columns:
        return -1
    row = result.first()
    return -1 if row is None else int(row["num_affected_rows"])


def _status(verb: str, rows: int) -> str:
    """The status line as in PostgreSQL, where INSERT has an object number, always 0."""
    if rows < 0:
        return verb
    return f"INSERT 0 {rows}" if verb == "INSERT" else f"{verb} {rows}"


def target_table(engine: Engine, ref: RelationRef, search_schema: str) -> Table:
    """The table that a statement writes; raises OUTPUT_OWNED for outputs and views."""
    item = engine.refresh_catalog().get(qualify(ref, search_schema), span=ref.span, kind="table")
    if isinstance(item, Table):
        check_table_to_write(engine.relations, item, engine.mint)
        return item
    hints = {
        ObjectKind.CONTINUAL_TASK: "Write into its input; its body decides what that does here.",
        ObjectKind.TASK_OUTPUT: "Write into the input of its task; the body decides what that "
        "does here.",
        ObjectKind.MATERIALIZED_VIEW: "Write into the tables that its query reads.",
        ObjectKind.VIEW: "Write into the tables that its query reads.",
    }
    raise error(
        "OUTPUT_OWNED",
        span=ref.span,
        kind=item.kind.value,
        name=str(item.name),
        hint=hints[item.kind],
    )


PAIRS_MAX = 1_000_000  # the most combinations of the rows of all relations; a join may compare all
_MAKES_ROWS = re.compile(
    r"\b(range|sequence|explode\w*|posexplode\w*|inline\w*|stack|lateral|recursive|json_tuple)\b",
    re.IGNORECASE,
)


def reads_few(engine: Engine, query: Query) -> bool:
    """Whether a query reads few rows of objects, or one system table, and makes no more rows."""
    counts: list[int] = []
    for node in descend(query):
        match node:
            case External(system=system) if system is None or len(query.relations) > 1:
                return False
            case Query(sql=sql) if _MAKES_ROWS.search(sql.span.text):
                return False
            case NormalReference(object_id=object_id):
                item = engine.relations.item(object_id)
                count = engine.versions.rows_count(item, engine.timeline.now)
                if count is None:
                    return False
                counts.append(count)
    return sum(counts) <= WITHOUT_CODE_MAX and prod(n or 1 for n in counts) <= PAIRS_MAX


@contextmanager
def for_few_rows(session: SparkSession) -> Iterator[None]:
    """Plan and compute without generated code inside."""
    with (
        without_code(session),
        setting(session, "spark.sql.codegen.wholeStage", "false"),
    ):
        yield
