"""What a connection does with data of Python's: append it, name it, run statements over many rows.

The functions are methods of :class:`ctsql.Connection`; they stand here as they are about one thing.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ctsql.caller_scope import CallerVariables, caller_variables
from ctsql.catalog.errors import error, misuse
from ctsql.catalog.names import Name, backtick
from ctsql.catalog.spans import Source, Span
from ctsql.literals import Parameters
from ctsql.planner.syntax import ast as st, parse, split
from ctsql.planner.syntax.statements.queries import parameters_inserted
from ctsql.result import Result

if TYPE_CHECKING:
    from ctsql.api import Connection
    from ctsql.writer import Writer


@contextmanager
def transaction(con: "Connection") -> Iterator[None]:
    """A transaction: committed behind the block, rolled back if the block raises.

        with con.transaction():
            con.execute("INSERT INTO orders VALUES (1, 'pen')")
            con.execute("UPDATE stock SET n = n - 1 WHERE item = 'pen'")

    Raises:
        CtsqlError: TRANSACTION_OPEN if one is open already; TRANSACTION_CONFLICT at the end
            if another writer changed one of the tables first.
    """
    con.begin()
    try:
        yield
    except BaseException:
        con.rollback()
        raise
    con.commit()


def append(con: "Connection", table: str, rows: Any) -> Result:
    """Append rows to a table in one commit, so that they have one T.

    Columns that the rows do not have get their default, or NULL. Datetimes without a zone are taken
    as UTC.

    Args:
        table: its name, as SQL spells it.
        rows: a DataFrame of pandas, Polars or Spark, an Arrow table or reader, anything else
            with an Arrow stream, dicts by column, or tuples with a value for each column.

    Returns:
        a result without rows, whose ``rowcount`` is the number of rows appended.

    Raises:
        CtsqlError: UNKNOWN_COLUMN, COLUMN_COUNT_MISMATCH, TYPE_MISMATCH or DATA_ERROR if the
            rows are not the table's; OUTPUT_OWNED if it is a task's or a view's.
    """
    return _append(con, relation_of(table), rows, ())


def _append(con: "Connection", ref: st.RelationRef, rows: Any, into: Sequence[str]) -> Result:
    """Append rows, those of tuples to the columns ``into``; to all columns without any."""
    from ctsql.catalog import schemas
    from ctsql.runtime.rows.given_rows import rows_for
    from ctsql.runtime.statements.dml import append_rows, target_table

    if con.read_only:
        raise error("READ_ONLY_MODE", what="append")
    with con._running(f"append to {ref.span.text}") as engine:
        item = target_table(engine, ref, con.search_schema)
        there = engine.relations.columns_now(item)
        columns = tuple(schemas.get(there, name, span=None) for name in into) or there
        frame = rows_for(engine.session, rows, columns, str(item.name))
        count = append_rows(engine, item, frame, within=con._transaction)
    return Result.of_status(f"INSERT 0 {count}", count)


def writer(con: "Connection", table: str, job: str = "default") -> "Writer":
    """How a job of one's own writes a table so that nothing is in twice.

    Args:
        table: its name, as SQL spells it.
        job: tells apart jobs that write the same table; each has an upper of its own.

    Raises:
        CtsqlError: UNKNOWN_RELATION, OUTPUT_OWNED.
    """
    from ctsql.runtime.statements.dml import target_table
    from ctsql.runtime.statements.job_writer import JobWriter
    from ctsql.writer import Writer

    ref = relation_of(table)
    with con._running(f"writer of {table}") as engine:
        return Writer(con, JobWriter(target_table(engine, ref, con.search_schema), job))


def register(con: "Connection", name: str, rows: Any) -> None:
    """Let queries and INSERT read rows under a name, as a temporary view of ``con.spark``.

    Tasks, views and other processes do not see it. A name that is registered already means the
    new rows from now on.

    Args:
        name: one identifier, which no table, task or view of the current schema has.
        rows: as for :meth:`append`, but no tuples.

    Raises:
        CtsqlError: OBJECT_EXISTS, INVALID_USAGE.
    """
    from ctsql.runtime.rows.given_rows import frame_of
    from ctsql.runtime.statements.name_resolution import check_free

    ref = relation_of(name)
    if len(ref.parts) > 1:
        raise error("INVALID_NAME", name=name, detail="A temporary view is in no schema.")
    spark = con.spark
    with con._running(f"register {name}") as engine:
        catalog = engine.refresh_catalog()
        check_free(catalog, Name(con.search_schema, ref.parts[0]), None, quiet=False)
        frame_of(spark, rows).createOrReplaceTempView(backtick(ref.parts[0]))


def unregister(con: "Connection", name: str) -> None:
    """Forget a name given by :meth:`register`; does nothing if there is none."""
    spark = con.spark
    with con._running(f"unregister {name}"):
        spark.catalog.dropTempView(relation_of(name).parts[0])


def executemany(con: "Connection", sql: str, seq_of_parameters: Iterable[Parameters]) -> Result:
    """Run INSERT, UPDATE, DELETE or MERGE once for each set of parameters, in one commit.

    An ``INSERT ... VALUES`` of nothing but parameters is one statement of Spark's for all rows;
    others run one after the other in a transaction.

    Args:
        seq_of_parameters: sequences for ``?``, or dicts for ``:name``.

    Returns:
        a result without rows; ``rowcount`` is the sum.

    Raises:
        CtsqlError: with its condition; nothing is committed then.
    """
    span, *others = split(Source(sql, "<statement>"))
    statement = parse(span)
    if others or not isinstance(statement, st.Dml):
        raise misuse("executemany runs one INSERT, UPDATE, DELETE or MERGE")
    given = list(seq_of_parameters)
    inserted = parameters_inserted(statement)
    if inserted is not None:
        into, names = inserted
        return _append(con, statement.target, _tuples(given, names), into)
    variables = caller_variables(None)
    if con._transaction is not None:
        return _run_each(con, span, statement.verb, given, variables)
    with con.transaction():
        return _run_each(con, span, statement.verb, given, variables)


def _run_each(
    con: "Connection",
    span: Span,
    verb: str,
    given: Sequence[Parameters],
    variables: CallerVariables,
) -> Result:
    counts = [con.run_statement(span, values, variables).rowcount for values in given]
    total = -1 if -1 in counts else sum(counts)
    status = f"{verb} 0 {total}" if verb == "INSERT" else f"{verb} {total}"
    return Result.of_status(status if total >= 0 else verb, total)


def relation_of(name: str) -> st.RelationRef:
    """The relation of a name as SQL spells it."""
    statement = parse(Source(f"DESCRIBE {name}", "<name>").whole())
    if not isinstance(statement, st.Describe) or statement.kind or statement.extended:
        raise misuse(f"{name!r} is no name")
    return statement.target


def _tuples(given: Sequence[Parameters], names: Sequence[str]) -> list[tuple[object, ...]]:
    """The values of each set of parameters in the order of ``names``; "" stands for ``?``."""
    from ctsql.literals import in_order

    return [in_order(names, parameters) for parameters in given]
