"""``CREATE CONTINUAL TASK x FROM TRANSFORM t USING (query)``: rows of t, changed, once each.

    FROM TRANSFORM t USING (q)   -->   ON INPUT t AS (INSERT INTO x q)

Every row that is inserted into t goes through the query once, at its T; what was written is never
revised. An aggregate is over the rows of one T.
"""

from ctsql.planner.desugar.commented import commented
from ctsql.planner.syntax.fragments import TaskForm


def compile_transform(form: TaskForm) -> str:
    """The continual task of a FROM TRANSFORM."""
    made = commented(form.span.text, f"INSERT INTO {form.target} {form.inner}")
    return f"CREATE CONTINUAL TASK {form.head} ON INPUT {form.source}{form.options} AS (\n{made}\n)"
