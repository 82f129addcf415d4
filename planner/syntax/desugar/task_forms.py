"""The short forms of CREATE CONTINUAL TASK, and the tasks that they are compiled to.

    FROM TRANSFORM t USING (q)   -->   ON INPUT t AS (INSERT INTO x q)

Every row that is inserted into t goes through the query once, at its T; what was written is never
revised. An aggregate is over the rows of one T.

    FROM RETAIN t WHILE (p)   -->   ON INPUT t AS (
                                        INSERT INTO x SELECT * FROM t WHERE (p);
                                        DELETE FROM x AS t WHERE (p) IS NOT TRUE)

At each T at which t grows, now() is T: what passes comes in, what passes no longer goes. A row is
kept where the predicate is true; where it is false or NULL it is not.
"""

from dataclasses import dataclass

from ctsql.catalog.spans import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForm:
    """FROM TRANSFORM or FROM RETAIN, as texts of the user's.

    Attributes:
        retain: it is FROM RETAIN. head: IF NOT EXISTS, the name and the columns, as typed.
        source: what it follows; source_alias: what its columns may be qualified with.
        inner: the query or the predicate. options: `` WITH (...)`` or empty.
    """

    span: Span
    retain: bool
    head: str
    target: str
    source: str
    source_alias: str
    inner: str
    options: str


def comment_above(origin: str, text: str) -> str:
    r"""The compiled text below its origin, as a comment.

    >>> print(comment_above("CREATE FLOW f\n  AS ...", "CREATE ..."))
    -- Made by:
    --   CREATE FLOW f
    --     AS ...
    CREATE ...
    """
    lines = [f"--   {line}".rstrip() for line in origin.strip().splitlines()]
    return "\n".join(["-- Made by:", *lines, text])


def compile_form(form: TaskForm) -> str:
    """The continual task of a short form."""
    body = f"INSERT INTO {form.target} {form.inner}"
    if form.retain:
        body = (
            f"INSERT INTO {form.target} SELECT * FROM {form.source} WHERE ({form.inner});\n"
            f"DELETE FROM {form.target} AS {form.source_alias} WHERE ({form.inner}) IS NOT TRUE"
        )
    comment = comment_above(form.span.text, body)
    return (
        f"CREATE CONTINUAL TASK {form.head} ON INPUT {form.source}{form.options} AS (\n{comment}\n)"
    )
