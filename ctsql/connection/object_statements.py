"""Runs the statements about objects: CREATE, DROP, ALTER, COMMENT, REFRESH, SHOW, VERIFY."""

from ctsql.catalog.items import ObjectKind
from ctsql.connection.log_answers import reads_logs, rows, run_logged, text_rows
from ctsql.planner.binding.advice import advise
from ctsql.planner.explain import explain
from ctsql.planner.nodes import ViewWrite
from ctsql.planner.syntax import ast as st
from ctsql.results.result import Result
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.functions import describe_functions, function_names
from ctsql.runtime.statements.definitions.alter import Alteration
from ctsql.runtime.statements.definitions.alter_task import TaskAlteration
from ctsql.runtime.statements.definitions.alter_view import (
    change_view_constraints,
    set_view_options,
)
from ctsql.runtime.statements.definitions.create import Creation
from ctsql.runtime.statements.definitions.create_flow import create_flow
from ctsql.runtime.statements.definitions.dropped import Undropping
from ctsql.runtime.statements.definitions.replacement import Replacement
from ctsql.runtime.statements.definitions.task_replacement import TaskReplacement
from ctsql.runtime.statements.explain import Explanation
from ctsql.runtime.statements.inspect.pending import show_pending
from ctsql.runtime.statements.inspect.show import Rows, is_like
from ctsql.runtime.statements.inspect.verify import Verification
from ctsql.runtime.statements.maintain import MAINTAINED, RETAINED, Maintenance
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.statements.provenance.row_lineage import COLUMNS as LINEAGE
from ctsql.runtime.statements.provenance.row_questions import RowQuestions
from ctsql.runtime.statements.tables.alter_table import TableAlteration
from ctsql.runtime.statements.tables.table_constraints import TableConstraints
from ctsql.runtime.subscriptions.cursors import Readers


def manage(names: Namespace, statement: st.Statement) -> Result:
    """Run a statement about objects; returns its status, or the rows it shows."""
    engine, schema = names.engine, names.search_schema
    match statement:
        case st.Maintain():
            records = Maintenance(names).maintain(statement)
            return Result.of_table(MAINTAINED, records, "MAINTAIN")
        case st.ShowRetention():
            return Result.of_table(RETAINED, Maintenance(names).retention(statement), "SHOW")
        case st.VerifyView():
            frame = Verification(names).verify(statement)
            return Result.of_dataframe(frame, status_verb="VERIFY", convert=translate_spark_errors)
        case st.Blame():
            frame = RowQuestions(names).blame(statement)
            return Result.of_dataframe(frame, status_verb="BLAME", convert=translate_spark_errors)
        case st.Why():
            return Result.of_table(LINEAGE, RowQuestions(names).why(statement), "WHY")
        case st.AlterTable():
            status, notices = TableAlteration(names).alter(statement)
            answer = Result.of_status(status)
            answer.notices = notices
            return answer
        case st.Explain():
            return _explain(Explanation(names), statement)
        case _ if reads_logs(statement):
            return run_logged(engine, statement, schema)
        case st.ShowObjects():
            return rows(_functions(statement.like))
        case st.ShowPending():
            return rows(show_pending(engine))
        case _:
            answer = Result.of_status(_run(names, statement))
            answer.notices = [str(advice) for advice in advise(statement, names.columns_of)]
            return answer


def _run(names: Namespace, statement: st.Statement) -> str:
    create, change = Creation(names), Alteration(names)
    match statement:
        case st.CreateTable():
            return create.create_table(statement)
        case st.CreateView():
            return create.create_view(statement)
        case st.CreateMaterializedView(replaces=st.RelationRef()):
            return Replacement(names).create(statement)
        case st.CreateMaterializedView():
            return create.create_materialized_view(statement)
        case st.CreateContinualTask(replaces=st.RelationRef()):
            return TaskReplacement(names).create(statement)
        case st.CreateContinualTask():
            return create.create_task(statement)
        case st.CreateFlow():
            return create_flow(names, statement)
        case st.CreateSchema():
            return create.create_schema(statement)
        case st.DropObject():
            return change.drop(statement)
        case st.UndropObject():
            return Undropping(names).undrop(statement)
        case st.RenameObject():
            return change.rename(statement)
        case st.DropSubscription():
            return Readers(names.engine).drop(
                statement.name, statement.name_span, if_exists=statement.if_exists
            )
        case st.ResumeTask():
            return change.resume(statement)
        case st.ReplayTask():
            return TaskReplacement(names).replay(statement)
        case st.ApplyReplacement(kind=ObjectKind.CONTINUAL_TASK):
            return TaskReplacement(names).apply(statement)
        case st.ApplyReplacement():
            return Replacement(names).apply(statement)
        case st.ReplaceBody():
            return TaskAlteration(names).replace_body(statement)
        case st.SetOptions(kind=ObjectKind.CONTINUAL_TASK):
            return TaskAlteration(names).set_options(statement)
        case st.SetOptions():
            return set_view_options(names, statement)
        case st.ChangeConstraints(kind=ObjectKind.TABLE):
            return TableConstraints(names).change(statement)
        case st.ChangeConstraints(kind=ObjectKind.MATERIALIZED_VIEW):
            return change_view_constraints(names, statement)
        case st.ChangeConstraints():
            return TaskAlteration(names).change_constraints(statement)
        case st.SwitchTask():
            return TaskAlteration(names).switch(statement)
        case st.CommentOn():
            return change.comment(statement)
        case st.RefreshView():
            return change.refresh(statement)
        case _:
            raise TypeError(f"not a statement about objects: {type(statement).__name__}")


def _functions(like: str | None) -> Rows:
    """SHOW FUNCTIONS: Spark's."""
    return ["function", "usage"], list(
        describe_functions([name for name in function_names() if is_like(name, like)])
    )


def _explain(explanation: Explanation, statement: st.Explain) -> Result:
    if statement.analyze:
        refresh_lines = explanation.explain_last_refresh(statement)
        return text_rows((["refresh"], [(line,) for line in refresh_lines]), "")
    plan = explanation.plan_of(statement)
    lines = explain(plan).splitlines() + explanation.explain_beginning(statement)
    if isinstance(plan, ViewWrite):
        lines += explanation.explain_refresh(plan)
    if statement.physical:
        lines += ["", *explanation.physical(plan).splitlines()]
    return text_rows((["plan"], [(line,) for line in lines]), "")
