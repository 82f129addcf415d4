"""An INSERT as Spark's analyser understands it: the query with its casts, without running it."""

from functools import cached_property, lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_CONSTANTS = ("LocalRelation", "OneRowRelation")


class NotAnAppend(Exception):
    """A statement does something else than append rows, or appends them in a way of its own."""


class Insert:
    """A statement, analysed."""

    def __init__(self, session: SparkSession, text: str) -> None:
        """Args: text: what Spark is given. Raises what Spark's parser and analyser raise."""
        self._session = session
        self._jsession: Any = session._jsparkSession
        skip, self._frame_of = _classes(session._jvm)
        state = self._jsession.sessionState()
        # In this mode Spark analyses a command and does not run it.
        self._plan = state.executePlan(state.sqlParser().parsePlan(text), skip).analyzed()

    @cached_property
    def rows(self) -> DataFrame:
        """The rows that it appends, under the names and with the types of the table's columns.

        Lazily. Columns that the statement does not fill may be missing.

        Raises:
            NotAnAppend: it overwrites, for example, or has options.
        """
        if self._plan.nodeName() != "AppendData" or not self._plan.writeOptions().isEmpty():
            raise NotAnAppend(str(self._plan.nodeName()))
        return DataFrame(self._frame_of(self._jsession, self._plan.query()), self._session)

    def run(self) -> DataFrame:
        """Have Spark run it as it is."""
        return DataFrame(self._frame_of(self._jsession, self._plan), self._session)


def are_constants(rows: DataFrame) -> bool:
    """Whether rows are made of those of a text only, so that no table is read for them."""
    leaves = rows._jdf.queryExecution().optimizedPlan().collectLeaves()
    return all(leaves.apply(at).nodeName() in _CONSTANTS for at in range(leaves.size()))


@lru_cache(maxsize=2)
def _classes(jvm: Any) -> tuple[Any, Any]:
    sql = jvm.org.apache.spark.sql
    return sql.execution.CommandExecutionMode.SKIP(), sql.classic.Dataset.ofRows
