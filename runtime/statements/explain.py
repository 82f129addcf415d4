"""EXPLAIN: the plan of a statement or of a stored object, the very value that is run."""

from pyspark.sql import DataFrame

from ctsql.catalog.errors import error
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.spans import Source
from ctsql.planner.binding import bind_task, qualify
from ctsql.planner.lowering import Context, Proposal, lower_query, lower_transaction, lower_view
from ctsql.planner.nodes import Node, Query, TaskWrite, ViewWrite
from ctsql.planner.rules import transform
from ctsql.planner.syntax import ast as st, parse
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.create_flow import compiled
from ctsql.runtime.statements.explain_refresh import last_refresh, refresh_plan
from ctsql.runtime.statements.name_resolution import OnNames
from ctsql.runtime.warehouse.sources import ExplainedSources


class Explanation(OnNames):
    """What a statement would do."""

    def plan_of(self, statement: st.Explain) -> Node:
        """The plan of a statement, or of a stored object: the very value that is run."""
        if statement.target is not None and statement.kind is not None:
            self.engine.timeline.refresh()  # it says which definition of a task is in force
            return self.engine.relations.bound(
                self.names.of_kind(statement.target, statement.kind)
            ).plan
        inner = statement.statement
        if isinstance(inner, st.CreateFlow):
            inner = parse(Source(compiled(self.names, inner).task, "the task of the flow").whole())
        if isinstance(inner, st.Select):
            return self.names.binder().bind_select(inner)
        if isinstance(inner, st.CreateView):
            return transform(self.names.binder().bind_view(inner).query)
        kinds = {
            st.CreateMaterializedView: ObjectKind.MATERIALIZED_VIEW,
            st.CreateContinualTask: ObjectKind.CONTINUAL_TASK,
        }
        if isinstance(inner, st.CreateMaterializedView | st.CreateContinualTask):
            name = qualify(inner.target, self.names.search_schema)
            item = self.names.new(name, kinds[type(inner)], inner.span, None)
            if isinstance(inner, st.CreateContinualTask):
                outputs = self.names.new_outputs(inner)
                return bind_task(self.names.binder(), inner, item, outputs).plan
            return self.names.binder().bind_materialized_view(inner, item).plan
        raise error(
            "NOT_SUPPORTED",
            span=statement.span,
            what="EXPLAIN of this statement",
            why="Only queries, views, materialized views and continual tasks have a plan.",
            hint="Type: EXPLAIN SELECT ..., or EXPLAIN CONTINUAL TASK name",
        )

    def refreshing(self, plan: ViewWrite) -> list[str]:
        """How a view, stored or not, would follow the changes of its tables; a line each."""
        with translate_spark_errors():
            return refresh_plan(self.engine.warehouse, plan)

    def refreshed(self, statement: st.Explain) -> list[str]:
        """What the last refresh of a stored view did."""
        assert statement.target is not None  # EXPLAIN ANALYZE has no other form
        item = self.names.of_kind(statement.target, ObjectKind.MATERIALIZED_VIEW)
        return last_refresh(self.engine.warehouse, item)

    def physical(self, plan: Node) -> str:
        """Spark's plan for what a plan computes as of now; nothing is run."""
        now = self.engine.mint()
        context = Context(self.engine.session, ExplainedSources(self.engine.warehouse), now, now)
        with translate_spark_errors():
            match plan:
                case Query():
                    frames = [lower_query(plan, context)]
                case ViewWrite():
                    frames = [lower_view(plan, context)]
                case TaskWrite():
                    made = lower_transaction(plan.transaction, context)
                    both = [f for o in plan.written for f in _frames(made.get(o.object_id))]
                    frames = [f for f in both if f is not None]
                case _:
                    raise TypeError(f"{type(plan).__name__} is no root of a plan")
            return "\n".join(f._jdf.queryExecution().toString() for f in frames)


def _frames(proposal: Proposal | None) -> tuple[DataFrame | None, ...]:
    return () if proposal is None else (proposal.victims, proposal.inserts)
