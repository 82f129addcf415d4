"""RETRY QUARANTINE: rows that a task has set aside go through it again, mended.

    check the statement on what is there --> bind it to a T --> run that T
                                                 |
                                                 +-- whoever reads the task next does the rest, if
                                                     the process dies here

If the T cannot be run, the task goes on from it as if the statement had not been given, and the
error is raised.
"""

from contextlib import ExitStack

from ctsql.catalog.errors import DataError, not_supported
from ctsql.catalog.items import Item, ObjectKind
from ctsql.planner.binding import qualify
from ctsql.planner.syntax import ast as st, splice
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.statements.redefinition import (
    Definition,
    Redefinition,
    column_list,
    unless_overtaken,
)
from ctsql.runtime.tasks.retried_rows import count_rows, find_retried

_DONE = "RETRY QUARANTINE"
_ONLY = {
    ObjectKind.MATERIALIZED_VIEW: "The quarantine of a view follows the data: mend the rows that "
    "the view reads.",
    ObjectKind.TABLE: "Rows of a table's quarantine go through in one transaction: BEGIN; INSERT "
    "INTO ... SELECT ... FROM the quarantine; DELETE FROM the quarantine; COMMIT",
}


class QuarantineRetry(Redefinition):
    """The statement; returns the status line."""

    @unless_overtaken
    def retry(self, statement: st.RetryQuarantine) -> str:
        """RETRY QUARANTINE task [SET column = value, ...] [WHERE condition].

        Raises:
            WRONG_OBJECT_KIND, NOT_SUPPORTED: it is no task with a quarantine; or a row there has a
                value that its text has not kept.
            TASK_FAILED: the task has failed, or does over these rows; then nothing is changed.
            UNKNOWN_COLUMN and what Spark says of the statement.
        """
        engine = self.engine
        target = engine.refresh_catalog().find(qualify(statement.target, self.names.search_schema))
        only = None if target is None else _ONLY.get(target.kind)
        self.names.of_kind(statement.target, ObjectKind.CONTINUAL_TASK, only=only)
        item, task = self.definition(statement.target)
        if item.quarantine is None:
            what = "RETRY QUARANTINE of a task without a quarantine"
            why = "No constraint says ON VIOLATION QUARANTINE, nor ON ERROR = 'quarantine'."
            raise not_supported(statement.target.span, what, why=why)
        is_suspended = engine.relations.is_suspended(item)
        if not is_suspended:
            engine.advance([item], engine.mint())
        count = self._count(item, statement)
        if not count:
            return f"{_DONE} 0"
        current = engine.relations.current(item)
        text = splice(task.span, column_list(item, task)).text
        then = Definition(text=text)
        once = Definition(text=text, once=True, retry=statement.span.text)
        begin = self.redefine(item, once, then, over=current.revision)
        if is_suspended:
            return f"{_DONE} {count} (when the task is resumed)"
        try:
            engine.advance([engine.relations.item(item.id)], begin)
        except DataError as problem:
            if problem.condition != "TASK_FAILED":
                raise
            self.redefine(engine.relations.item(item.id), then)
            raise
        return f"{_DONE} {count}"

    def _count(self, item: Item, statement: st.RetryQuarantine) -> int:
        """How many rows the statement means now; raises where it is none that Spark takes."""
        engine = self.engine
        quarantine = engine.relations.item(item.quarantine or "")
        plan = engine.relations.bound(item).task
        version = engine.relations.table(quarantine).version()
        with translate_spark_errors(), ExitStack() as stack:
            retried_rows = find_retried(
                engine.warehouse,
                plan,
                statement,
                quarantine,
                version,
                engine.timeline.now,
                stack,
                refuses=True,
            )
            return count_rows(retried_rows)
