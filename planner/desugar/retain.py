"""``CREATE CONTINUAL TASK x FROM RETAIN t WHILE (predicate)``: the rows of t that are kept a while.

    FROM RETAIN t WHILE (p)   -->   ON INPUT t AS (
                                        INSERT INTO x SELECT * FROM t WHERE (p);
                                        DELETE FROM x AS t WHERE (p) IS NOT TRUE)

At each T at which t grows, now() is T: what passes comes in, what passes no longer goes. A row is
kept where the predicate is true; where it is false or NULL it is not.
"""

from ctsql.planner.desugar.commented import commented
from ctsql.planner.syntax.fragments import TaskForm


def compile_retain(form: TaskForm) -> str:
    """The continual task of a FROM RETAIN."""
    made = commented(
        form.span.text,
        f"INSERT INTO {form.target} SELECT * FROM {form.source} WHERE ({form.inner});\n"
        f"DELETE FROM {form.target} AS {form.source_alias} WHERE ({form.inner}) IS NOT TRUE",
    )
    return f"CREATE CONTINUAL TASK {form.head} ON INPUT {form.source}{form.options} AS (\n{made}\n)"
