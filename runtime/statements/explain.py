"""EXPLAIN: the plan of a statement or of a stored object."""

from ctsql.catalog.errors import not_supported
from ctsql.catalog.items import RECORDS, MaterializedView, Task
from ctsql.catalog.spans import Source
from ctsql.planner.binding.binder import qualify
from ctsql.planner.binding.task import bind_task
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.lowering.transaction import lower_transaction
from ctsql.planner.lowering.view import lower_view
from ctsql.planner.nodes import Node, Query, TaskWrite, ViewWrite
from ctsql.planner.rules import transform
from ctsql.planner.syntax import ast as st, parse
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.plans import plans_text
from ctsql.runtime.statements.definitions.create_flow import compile_texts
from ctsql.runtime.statements.definitions.first_rows import source_of
from ctsql.runtime.statements.definitions.task_replacement import TaskReplacement
from ctsql.runtime.statements.inspect.explain_refresh import last_refresh, refresh_plan
from ctsql.runtime.statements.objects.name_resolution import OnNames
from ctsql.runtime.warehouse.sources import ExplainedSources


class Explanation(OnNames):
    """The EXPLAIN statements."""

    def plan_of(self, statement: st.Explain) -> Node:
        """The plan of a statement, or of a stored object: the value that is run."""
        if statement.target is not None and statement.kind is not None:
            self.engine.timeline.refresh()  # for the definition of a task that is in force
            return self.engine.relations.bound(
                self.names.of_kind(statement.target, RECORDS[statement.kind])
            ).plan
        inner = statement.statement
        if isinstance(inner, st.CreateFlow):
            inner = parse(
                Source(compile_texts(self.names, inner).task, "the task of the flow").whole()
            )
        if isinstance(inner, st.Select):
            return self.names.binder().bind_select(inner)
        if isinstance(inner, st.CreateView):
            return transform(self.names.binder().bind_view(inner).query)
        if isinstance(inner, st.CreateMaterializedView | st.CreateContinualTask):
            name = qualify(inner.target, self.names.search_schema)
            if isinstance(inner, st.CreateContinualTask) and inner.replaces is not None:
                return TaskReplacement(self.names).bound(inner, name).plan
            if isinstance(inner, st.CreateContinualTask):
                item = self.names.new(Task, name, inner.span, None)
                outputs = self.names.new_outputs(inner)
                return bind_task(self.names.binder(), inner, item, outputs).plan
            view = self.names.new(MaterializedView, name, inner.span, None)
            return self.names.binder().bind_materialized_view(inner, view).plan
        what = "EXPLAIN of this statement"
        why = "Only queries, views, materialized views and continual tasks have a plan."
        hint = "Type: EXPLAIN SELECT ..., or EXPLAIN CONTINUAL TASK name"
        raise not_supported(statement.span, what, why=why, hint=hint)

    def explain_beginning(self, statement: st.Explain) -> list[str]:
        """What a task that is to be made begins with, where that is no snapshot of its inputs."""
        definition = statement.statement
        if not isinstance(definition, st.CreateContinualTask):
            return []
        if definition.backfill is not None:
            source_of(self.names, definition.backfill)
            return [f"Begins with the rows of {definition.backfill.span.text}"]
        if definition.replaces is None or definition.begin is None:
            return []
        task, t = definition.replaces.span.text, definition.begin.span.text
        return [f"Begins with what {task} held before {t}, then runs every T since"]

    def explain_refresh(self, plan: ViewWrite) -> list[str]:
        """The lines of :func:`refresh_plan` for a view, stored or not."""
        with translate_spark_errors():
            return refresh_plan(self.engine.warehouse, plan)

    def explain_last_refresh(self, statement: st.Explain) -> list[str]:
        """The lines of :func:`last_refresh` for a stored view."""
        assert statement.target is not None  # EXPLAIN ANALYZE has no other form
        only = "EXPLAIN ANALYZE tells how a materialized view was refreshed. Leave ANALYZE out."
        item = self.names.of_kind(statement.target, MaterializedView, only=only)
        return last_refresh(self.engine.warehouse, item)

    def physical(self, plan: Node) -> str:
        """Spark's plan for what a plan computes as of now; nothing is run."""
        now = self.engine.mint()
        context = Context(self.engine.session, ExplainedSources(self.engine.warehouse), now, now)
        with translate_spark_errors():
            match plan:
                case Query():
                    external = self.engine.external_rows(plan.relations)
                    frames = [lower_query(plan, context, external)]
                case ViewWrite():
                    frames = [lower_view(plan, context)]
                case TaskWrite():
                    proposals = lower_transaction(plan.transaction, context)
                    by_output = (proposals.get(o.object_id) for o in plan.all_outputs)
                    both = [f for p in by_output if p is not None for f in (p.victims, p.inserts)]
                    frames = [f for f in both if f is not None]
                case _:
                    raise TypeError(f"{type(plan).__name__} is no root of a plan")
            return "\n".join(plans_text(f) for f in frames)
