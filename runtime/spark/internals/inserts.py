"""An INSERT as Spark's analyser understands it: the query with its casts, without running it."""

from functools import cached_property, lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.declined import Declined
from ctsql.runtime.spark.internals.java import frame_of_plan, java, java_session

_VALUES = ("LocalRelation", "UnresolvedInlineTable")
"""What Spark's parser makes of VALUES."""


class AnalysedInsert:
    """A statement, analysed.

    No public API analyses an INSERT without running it. Needed: without it, tables with constraints
    and transactions take no INSERT, and rows of constants take a job.
    """

    def __init__(self, session: SparkSession, text: str, target: Any | None = None) -> None:
        """Analyse a statement.

        Args:
            text: what Spark is given. target: of an earlier statement into this table, whose
                metadata is the same still; Spark would list the table's log to find it.

        Raises what Spark's parser and analyser raise.
        """
        self._session = session
        self._text = text
        state = java_session(session).sessionState()
        plan = state.sqlParser().parsePlan(text)
        self._by_known = target is not None and _inserts_values(plan)
        if self._by_known:
            fields = range(2, plan.productArity() + 1)  # seven before Spark 4.2, now nine
            others = (getattr(plan, f"copy$default${n}")() for n in fields)
            plan = plan.copy(target, *others)
        # In this mode Spark analyses a command and does not run it.
        self._plan = state.executePlan(plan, _skip(java(session))).analyzed()

    @property
    def target(self) -> Any | None:
        """The table as Spark resolves it, for the next statement; None for another command."""
        return self._plan.table() if self._plan.nodeName() == "AppendData" else None

    @cached_property
    def rows(self) -> DataFrame | Declined:
        """The rows that it appends, under the names and with the types of the table's columns.

        Lazily. Columns that the statement does not fill may be missing. Declined where it
        overwrites, for example, or has options.
        """
        if self._plan.nodeName() != "AppendData" or not self._plan.writeOptions().isEmpty():
            return Declined(str(self._plan.nodeName()))
        return frame_of_plan(self._session, self._plan.query())

    def run(self) -> DataFrame:
        """Have Spark run it as it is."""
        if self._by_known:
            return AnalysedInsert(self._session, self._text).run()
        return frame_of_plan(self._session, self._plan)


def _inserts_values(plan: Any) -> bool:
    """Whether it is INSERT INTO ... VALUES: it reads nothing that the target's version decides."""
    if plan.nodeName() != "InsertIntoStatement":
        return False
    return plan.query().nodeName() in _VALUES


@lru_cache(maxsize=2)
def _skip(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
