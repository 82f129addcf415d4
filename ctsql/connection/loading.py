"""Methods of :class:`ctsql.Connection` for Python's data: append, writer, register, unregister."""

from collections.abc import Sequence
from typing import Any

from ctsql.catalog.errors import error, misuse
from ctsql.catalog.names import Name, backtick
from ctsql.catalog.spans import Source, Span
from ctsql.connection.open_warehouse import OpenWarehouse
from ctsql.connection.writer import Writer
from ctsql.planner.literals import Parameters, in_order
from ctsql.planner.syntax import ast as st, parse, split
from ctsql.planner.syntax.statements.queries import parameters_inserted
from ctsql.results.result import Result


def append(con: OpenWarehouse, table: str, rows: Any) -> Result:
    """Append rows to a table in one commit, so that they have one T.

    Missing columns get their default, or NULL. Datetimes without a time zone are UTC.

    Args:
        table: its name, as SQL spells it.
        rows: a DataFrame of pandas, Polars or Spark, an Arrow table or reader, anything else
            with an Arrow stream, dicts by column, or tuples with a value for each column.

    Returns: a result without rows; ``rowcount`` is the number of rows appended.

    Raises:
        CtsqlError: UNKNOWN_COLUMN, COLUMN_COUNT_MISMATCH, TYPE_MISMATCH or DATA_ERROR if the rows
            do not fit the table; OUTPUT_OWNED if it is the output of a task or a view.
    """
    return _append(con, relation_of(table), rows, ())


def _append(con: OpenWarehouse, ref: st.RelationRef, rows: Any, into: Sequence[str]) -> Result:
    """Append rows, those of tuples to the columns ``into``; to all columns without any."""
    from ctsql.catalog import schemas
    from ctsql.runtime.rows.given_rows import rows_for
    from ctsql.runtime.statements.dml.dml import append_rows, target_table

    if con.read_only:
        raise error("READ_ONLY_MODE", what="append")
    with con._running(f"append to {ref.span.text}") as engine:
        item = target_table(engine, ref, con.search_schema)
        there = engine.relations.columns_now(item)
        columns = tuple(schemas.get(there, name, span=None) for name in into) or there
        frame = rows_for(engine.session, rows, columns, str(item.name))
        count = append_rows(engine, item, frame, within=con._transaction)
    return Result.of_status(f"INSERT 0 {count}", count)


def writer(con: OpenWarehouse, table: str, job: str = "default") -> Writer:
    """Write a table by a job of the caller, so that no row is written twice.

    Args:
        table: its name, as SQL spells it.
        job: its name; each job that writes the table has its own upper.

    Raises:
        CtsqlError: UNKNOWN_RELATION, OUTPUT_OWNED.
    """
    from ctsql.runtime.statements.dml.dml import target_table
    from ctsql.runtime.statements.dml.job_writer import JobWriter

    ref = relation_of(table)
    with con._running(f"writer of {table}") as engine:
        return Writer(con, JobWriter(target_table(engine, ref, con.search_schema), job))


def register(con: OpenWarehouse, name: str, rows: Any) -> None:
    """Register rows under a name for queries and INSERT, as a temporary view of ``con.spark``.

    Tasks, views and other processes do not see it. Registering a name again replaces its rows.

    Args:
        name: one identifier, which no table, task or view of the current schema has.
        rows: as for :meth:`append`, but no tuples.

    Raises:
        CtsqlError: OBJECT_EXISTS, INVALID_USAGE.
    """
    from ctsql.runtime.rows.given_rows import frame_of
    from ctsql.runtime.statements.objects.name_resolution import check_free

    ref = relation_of(name)
    if len(ref.parts) > 1:
        raise error("INVALID_NAME", name=name, detail="A temporary view is in no schema.")
    spark = con.spark
    with con._running(f"register {name}") as engine:
        catalog = engine.refresh_catalog()
        check_free(catalog, Name(con.search_schema, ref.parts[0]), None, quiet=False)
        frame_of(spark, rows).createOrReplaceTempView(backtick(ref.parts[0]))


def unregister(con: OpenWarehouse, name: str) -> None:
    """Forget a name given by :meth:`register`; does nothing if there is none."""
    spark = con.spark
    with con._running(f"unregister {name}"):
        spark.catalog.dropTempView(relation_of(name).parts[0])


def one_change(sql: str) -> tuple[Span, st.Dml]:
    """The one INSERT, UPDATE, DELETE or MERGE of a text; raises INVALID_USAGE for anything else."""
    span, *others = split(Source(sql, "<statement>"))
    statement = parse(span)
    if others or not isinstance(statement, st.Dml):
        raise misuse("executemany runs one INSERT, UPDATE, DELETE or MERGE")
    return span, statement


def append_given(
    con: OpenWarehouse, statement: st.Dml, parameter_sets: Sequence[Parameters]
) -> Result | None:
    """Append a row for each set of parameters, if the statement inserts only them; else None."""
    insert = parameters_inserted(statement)
    if insert is None:
        return None
    into, names = insert
    rows = [in_order(names, parameters) for parameters in parameter_sets]
    return _append(con, statement.target, rows, into)


def sum_of(verb: str, counts: Sequence[int]) -> Result:
    """The result of a statement that ran several times; a count of -1 is unknown."""
    total = -1 if -1 in counts else sum(counts)
    status = f"{verb} 0 {total}" if verb == "INSERT" else f"{verb} {total}"
    return Result.of_status(status if total >= 0 else verb, total)


def relation_of(name: str) -> st.RelationRef:
    """The relation of a name as SQL spells it."""
    statement = parse(Source(f"DESCRIBE {name}", "<name>").whole())
    if not isinstance(statement, st.Describe) or statement.kind or statement.extended:
        raise misuse(f"{name!r} is no name")
    return statement.target
