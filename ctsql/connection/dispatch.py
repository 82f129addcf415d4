"""The handler of each kind of statement, and where the statement is allowed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from enum import Flag, auto
from typing import TYPE_CHECKING, Any

from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import ObjectKind
from ctsql.connection.following import open_subscription
from ctsql.connection.log_answers import reads_logs, rows, run_logged, text_rows
from ctsql.connection.open_warehouse import OpenWarehouse
from ctsql.planner.binding.advice import advise
from ctsql.planner.explain import explain
from ctsql.planner.nodes import Query, ViewWrite
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens.replaceable_calls import with_schema
from ctsql.results.result import Result
from ctsql.runtime.engine import Engine
from ctsql.runtime.pipelines.applying import create_or_replace
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.sessions import describe_functions, function_names
from ctsql.runtime.spark.internals.temporary import has_function, with_functions
from ctsql.runtime.statements.definitions.alter import (
    Alteration,
    change_view_constraints,
    set_view_options,
)
from ctsql.runtime.statements.definitions.alter_task import TaskAlteration
from ctsql.runtime.statements.definitions.create import Creation
from ctsql.runtime.statements.definitions.dropped import Undropping
from ctsql.runtime.statements.definitions.task_replacement import TaskReplacement
from ctsql.runtime.statements.definitions.view_replacement import Replacement
from ctsql.runtime.statements.dml.copy import copy_from, copy_to
from ctsql.runtime.statements.dml.dml import for_few_rows, reads_few, write_source
from ctsql.runtime.statements.dml.transaction import OpenTransaction
from ctsql.runtime.statements.explain import explain_beginning, last_refresh, plan_of, refresh_plan
from ctsql.runtime.statements.inspect.pending import show_pending
from ctsql.runtime.statements.inspect.show import is_like
from ctsql.runtime.statements.inspect.verify import verify
from ctsql.runtime.statements.maintain import MAINTAINED, RETAINED, Maintenance
from ctsql.runtime.statements.objects.name_resolution import Namespace, check_schema
from ctsql.runtime.statements.provenance.row_lineage import COLUMNS as LINEAGE, RowQuestions
from ctsql.runtime.statements.tables.alter_table import TableAlteration, change_table_constraints
from ctsql.runtime.subscriptions.cursors import Readers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class May(Flag):
    """Where a kind of statement is allowed."""

    CHANGE = 0
    READ_ONLY = auto()  # on a read-only connection
    IN_TRANSACTION = auto()  # between BEGIN and COMMIT
    ONCE = auto()  # its SQL is evaluated only now
    AGAIN = auto()  # a definition, whose SQL is evaluated again later


@dataclass(frozen=True, slots=True)
class StatementContext:
    """The context of a statement for its handler: connection, names and parameters."""

    con: OpenWarehouse
    names: Namespace
    values: tuple[str, ...]

    @property
    def engine(self) -> Engine:
        """The connection's engine."""
        return self.names.engine


Handler = Callable[[StatementContext, Any], Result]


def allowed(statement: st.Statement) -> May:
    """Where a statement is allowed; for a few kinds its clauses count too."""
    may = HANDLERS[type(statement)][1]
    match statement:
        case st.VerifyView(repair=True):
            return may & ~May.READ_ONLY
        case st.Transact(verb="BEGIN"):
            return may & ~May.IN_TRANSACTION
        case st.Explain(statement=st.Select()):
            return may | May.ONCE
    return may


def run(
    con: OpenWarehouse, engine: Engine, statement: st.Statement, values: tuple[str, ...]
) -> Result:
    """Run a statement by the handler of its class; ``values`` are its parameters, as literals.

    Raises TRANSACTION_OPEN if a transaction excludes it, and the handler's errors.
    """
    handler, _ = HANDLERS[type(statement)]
    if con.in_transaction and May.IN_TRANSACTION not in allowed(statement):
        what = statement.span.text.split()[0].upper()
        raise error("TRANSACTION_OPEN", span=statement.span, what=what)
    return handler(StatementContext(con, Namespace(engine, con.search_schema), values), statement)


# ---- rows


def _read(running: StatementContext, statement: st.Select) -> "tuple[DataFrame, Query]":
    """The rows of a query, lazily; in a transaction as of its T, with its changes."""
    within = running.con._transaction
    as_of = None if within is None else within.at
    if statement.as_of is not None:
        as_of = times.parse_time(statement.as_of, span=statement.as_of_span)
    text = with_schema(statement.query, running.con.search_schema)
    query = running.names.binder().bind_select(replace(statement, query=text))
    frame = running.engine.advance_and_read(
        query,
        as_of=as_of,
        as_of_span=statement.as_of_span,
        strict=running.con._settings.strict,
        parameters=running.values,
        own_writes=within.own_writes if within and statement.as_of is None else None,
    )
    return frame, query


def _select(running: StatementContext, statement: st.Select) -> Result:
    frame, query = _read(running, statement)
    return Result.of_dataframe(frame, convert=_fetching(running, query))


def _fetching(
    running: StatementContext, query: Query
) -> Callable[[], AbstractContextManager[object]]:
    """The context manager for each call of Spark that fetches rows of a query."""
    con = running.con
    is_of_few = con._transaction is None and reads_few(running.engine, query)

    @contextmanager
    def fetching() -> "Iterator[None]":
        with con._running("fetch") as engine:
            if not is_of_few:
                yield
                return
            with for_few_rows(engine.session):
                yield

    return fetching


def _copy_to(running: StatementContext, statement: st.CopyTo) -> Result:
    frame, _ = _read(running, statement.select)
    count = copy_to(running.engine, frame, statement)
    return Result.of_status(f"COPY {count}", count)


def _copy_from(running: StatementContext, statement: st.CopyFrom) -> Result:
    con = running.con
    count = copy_from(running.engine, statement, con.search_schema, within=con._transaction)
    return Result.of_status(f"COPY {count}", count)


def _change_rows(running: StatementContext, statement: st.Dml) -> Result:
    con = running.con
    given = replace(statement, text=with_schema(statement.text, con.search_schema))
    return Result.of_status(
        *write_source(
            running.engine, given, con.search_schema, running.values, within=con._transaction
        )
    )


def _subscribe(running: StatementContext, statement: st.Subscribe) -> Result:
    live = open_subscription(running.con, running.engine, statement)
    return Result.of_live(*live.heads, live)


# ---- the connection


def _transact(running: StatementContext, statement: st.Transact) -> Result:
    con, verb = running.con, statement.verb
    if verb == "BEGIN":
        con._transaction = OpenTransaction(running.engine, running.engine.mint())
        return Result.of_status(verb)
    ended, con._transaction = con._transaction, None
    if ended is None:
        raise error("TRANSACTION_NOT_OPEN", span=statement.span)
    if verb == "COMMIT":
        ended.commit()
    else:
        ended.rollback()
    return Result.of_status(verb)


def _change_setting(
    running: StatementContext, statement: st.SetSetting | st.ResetSetting
) -> Result:
    con, engine, settings = running.con, running.engine, running.con._settings
    if isinstance(statement, st.SetSetting):
        settings.set(statement, engine.session)
    else:
        settings.reset(statement, engine.session)
    if engine.read_only and not settings.read_only:
        con._promote(engine)
    return Result.of_status("SET" if isinstance(statement, st.SetSetting) else "RESET")


def _show_setting(running: StatementContext, statement: st.ShowSetting) -> Result:
    settings = running.con._settings.show(statement, running.engine.session)
    return rows((["name", "value", "description"], settings))


def _use(running: StatementContext, statement: st.UseSchema) -> Result:
    check_schema(running.engine.refresh_catalog(), statement.name, statement.name_span)
    running.con.search_schema = statement.name
    return Result.of_status("USE")


# ---- questions about objects


def _show(running: StatementContext, statement: st.Show | st.Describe) -> Result:
    if isinstance(statement, st.Describe) or reads_logs(statement):
        return run_logged(running.engine, statement, running.con.search_schema)
    if statement.what == "pending":
        return rows(show_pending(running.engine))
    if statement.what == "retention":
        records = Maintenance(running.names).retention(statement)
        return Result.of_table(RETAINED, records, "SHOW")
    names = [name for name in function_names() if is_like(name, statement.like)]
    return rows((["function", "usage"], list(describe_functions(names))))


def _explain(running: StatementContext, statement: st.Explain) -> Result:
    if statement.analyze:
        lines = last_refresh(running.names, statement)
        return text_rows((["refresh"], [(line,) for line in lines]), "")
    plan = plan_of(running.names, statement)
    lines = explain(plan).splitlines() + explain_beginning(running.names, statement)
    if isinstance(plan, ViewWrite):
        with translate_spark_errors():
            lines += refresh_plan(running.engine.warehouse, plan)
    return text_rows((["plan"], [(line,) for line in lines]), "")


def _table(verb: str, columns: Any, records: Callable[[Namespace, Any], Any]) -> Handler:
    """Show rows in memory."""
    return lambda running, s: Result.of_table(columns, records(running.names, s), verb)


def _frame(verb: str, frame: "Callable[[Namespace, Any], DataFrame]") -> Handler:
    """Show rows that Spark computes."""
    return lambda running, s: Result.of_dataframe(
        frame(running.names, s), status_verb=verb, convert=translate_spark_errors
    )


def _ask_about_rows(running: StatementContext, statement: st.RowQuestion) -> Result:
    questions = RowQuestions(running.names)
    if statement.verb == "WHY":
        return Result.of_table(LINEAGE, questions.why(statement), "WHY")
    return _frame("BLAME", lambda _, s: questions.blame(s))(running, statement)


# ---- changes of objects


def _done(change: Callable[[Namespace, Any], str]) -> Handler:
    """A handler for a change that returns a status; the result has advice for the author."""

    def handle(running: StatementContext, statement: st.Statement) -> Result:
        answer = Result.of_status(change(running.names, statement))
        answer.notices = [str(one) for one in advise(statement, running.names.columns_of)]
        return answer

    return handle


def _alter_table(running: StatementContext, statement: st.AlterTable) -> Result:
    status, notices = TableAlteration(running.names).alter(statement)
    answer = Result.of_status(status)
    answer.notices = notices
    return answer


def _create_table(names: Namespace, statement: st.CreateTable) -> str:
    text = with_schema(statement.text, names.search_schema)
    return Creation(names).create_table(replace(statement, text=text))


def _create_object(
    names: Namespace,
    statement: st.CreateView | st.CreateMaterializedView | st.CreateContinualTask | st.CreateFlow,
) -> str:
    match statement:
        case st.CreateMaterializedView(replaces=st.RelationRef()):
            return Replacement(names).create(statement)
        case st.CreateContinualTask(replaces=st.RelationRef()):
            return TaskReplacement(names).create(statement)
    return create_or_replace(names, statement)


def _apply_replacement(names: Namespace, statement: st.ApplyReplacement) -> str:
    of_task = statement.kind is ObjectKind.CONTINUAL_TASK
    return (TaskReplacement if of_task else Replacement)(names).apply(statement)


def _control_task(names: Namespace, statement: st.ControlTask) -> str:
    if statement.verb in ("RETRY", "SKIP"):
        return Alteration(names).resume(statement)
    return TaskAlteration(names).switch(statement)


def _set_options(names: Namespace, statement: st.SetOptions) -> str:
    if statement.kind is ObjectKind.CONTINUAL_TASK:
        return TaskAlteration(names).set_options(statement)
    return set_view_options(names, statement)


def _change_constraints(names: Namespace, statement: st.ChangeConstraints) -> str:
    match statement.kind:
        case ObjectKind.TABLE:
            return change_table_constraints(names, statement)
        case ObjectKind.MATERIALIZED_VIEW:
            return change_view_constraints(names, statement)
        case _:
            return TaskAlteration(names).change_constraints(statement)


def _drop_subscription(names: Namespace, statement: st.DropSubscription) -> str:
    return Readers(names.engine).drop(
        statement.name, statement.name_span, if_exists=statement.if_exists
    )


_READS = May.READ_ONLY | May.IN_TRANSACTION
HANDLERS: dict[type[st.Statement], tuple[Handler, May]] = {
    st.Select: (_select, _READS | May.ONCE),
    st.CopyTo: (_copy_to, _READS | May.ONCE),
    st.CopyFrom: (_copy_from, May.IN_TRANSACTION),
    st.Dml: (_change_rows, May.IN_TRANSACTION | May.ONCE),
    st.Subscribe: (_subscribe, May.READ_ONLY | May.AGAIN),
    st.Transact: (_transact, _READS),
    st.SetSetting: (_change_setting, _READS),
    st.ResetSetting: (_change_setting, _READS),
    st.ShowSetting: (_show_setting, _READS),
    st.UseSchema: (_use, _READS),
    # A script may contain it among its definitions.
    st.Test: (
        lambda _, __: Result.of_status("TEST (not run; that is for: ctsql test FOLDER)"),
        _READS,
    ),
    st.Show: (_show, _READS),
    st.Describe: (_show, _READS),
    st.Explain: (_explain, _READS),
    # These read commits; an open transaction has none yet.
    st.RowQuestion: (_ask_about_rows, May.READ_ONLY | May.ONCE),
    st.VerifyView: (_frame("VERIFY", verify), May.READ_ONLY),
    st.Maintain: (
        _table("MAINTAIN", MAINTAINED, lambda n, s: Maintenance(n).maintain(s)),
        May.CHANGE,
    ),
    st.CreateTable: (_done(_create_table), May.ONCE),
    st.CreateView: (_done(_create_object), May.AGAIN),
    st.CreateMaterializedView: (_done(_create_object), May.AGAIN),
    st.CreateContinualTask: (_done(_create_object), May.AGAIN),
    st.CreateFlow: (_done(_create_object), May.AGAIN),
    st.CreateSchema: (_done(lambda n, s: Creation(n).create_schema(s)), May.CHANGE),
    st.AlterTable: (_alter_table, May.CHANGE),
    st.DropObject: (_done(lambda n, s: Alteration(n).drop(s)), May.CHANGE),
    st.UndropObject: (_done(lambda n, s: Undropping(n).undrop(s)), May.CHANGE),
    st.RenameObject: (_done(lambda n, s: Alteration(n).rename(s)), May.CHANGE),
    st.DropSubscription: (_done(_drop_subscription), May.CHANGE),
    st.ControlTask: (_done(_control_task), May.CHANGE),
    st.ReplayTask: (_done(lambda n, s: TaskReplacement(n).replay(s)), May.CHANGE),
    st.ApplyReplacement: (_done(_apply_replacement), May.CHANGE),
    st.ReplaceBody: (_done(lambda n, s: TaskAlteration(n).replace_body(s)), May.CHANGE),
    st.SetOptions: (_done(_set_options), May.CHANGE),
    st.ChangeConstraints: (_done(_change_constraints), May.CHANGE),
    st.CommentOn: (_done(lambda n, s: Alteration(n).comment(s)), May.CHANGE),
    st.RefreshView: (_done(lambda n, s: Alteration(n).refresh(s)), May.CHANGE),
}
"""The handler of each class of statements, and where they are allowed."""


@contextmanager
def with_own_functions(engine: "Engine", *, once: bool) -> Iterator[None]:
    """Let a statement that runs once call the functions of ``con.spark``; definitions must not."""
    if once:
        with with_functions(engine.session, engine.caller):
            yield
        return
    try:
        yield
    except CtsqlError as problem:
        name = str(problem.given.get("function", ""))
        if problem.condition != "UNKNOWN_FUNCTION" or not has_function(engine.caller, name):
            raise
        raise error(
            "NOT_DURABLE",
            span=problem.span,
            cause=problem,
            what=f"function {name}",
            where="in a definition",
            detail="It is registered in this process only; other processes run definitions too.",
            hint="Write it in SQL, or compute the column before the rows are inserted.",
        ) from problem
