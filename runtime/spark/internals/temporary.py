"""Temporary views and functions of the caller's session.

The engine has its own session. A query of the caller sees temporary objects; a definition must not,
because other processes run it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.names import backtick_all, fold
from ctsql.runtime.spark.internals.java import (
    frame_of_plan,
    in_order,
    java_session,
    query_execution,
    typed,
)
from ctsql.runtime.spark.versions import at_least

_GLOBAL = "global_temp"
_SESSION = "system.session."  # prefix of a session's own functions in its registry


def has_view(caller: SparkSession, parts: tuple[str, ...]) -> bool:
    """Whether a session has a temporary view of that name, a global one included.

    The public API, ``catalog.tableExists``, finds tables as well. Needed: without it, a query could
    not read temporary views.
    """
    catalog = _state(caller).catalog()
    if len(parts) == 1:
        return typed(bool, catalog.getTempView(parts[0]).isDefined())
    is_global = len(parts) == 2 and fold(parts[0]) == _GLOBAL
    return is_global and typed(bool, catalog.getGlobalTempView(parts[1]).isDefined())


def view_rows(session: SparkSession, caller: SparkSession, parts: tuple[str, ...]) -> DataFrame:
    """The rows of a temporary view of the caller's, for texts of another session.

    No public API moves rows between sessions. Needed: without it, a query could not read temporary
    views.
    """
    return in_session(session, caller.table(".".join(backtick_all(parts))))


def in_session(session: SparkSession, rows: DataFrame) -> DataFrame:
    """A DataFrame with the same plan, of another session of the same process.

    No public API moves rows between sessions. Needed: without it, a caller's DataFrames could not
    be appended.
    """
    return frame_of_plan(session, query_execution(rows).analyzed())


def has_function(caller: SparkSession, name: str) -> bool:
    """Whether a session has a temporary function of that name.

    The public API, ``catalog.functionExists``, finds Spark's own as well. Needed: without it, a
    definition could name a function that other processes do not have.
    """
    return fold(name) in {fold(typed(str, f.funcName())) for f in _functions(caller)}


@contextmanager
def with_functions(session: SparkSession, caller: SparkSession) -> Iterator[None]:
    """Within the block a session has the caller's temporary functions, after its own.

    No public API copies functions. Needed: without it, a query could not call temporary functions.
    """
    registry = _state(session).functionRegistry()
    caller_registry = _state(caller).functionRegistry()
    names = []
    try:
        for name in _functions(caller):
            builder = caller_registry.lookupFunctionBuilder(name)
            if typed(bool, builder.isDefined()) and not typed(bool, registry.functionExists(name)):
                function = caller_registry.lookupFunction(name).get()
                registry.registerFunction(name, function, builder.get())
                names.append(name)
        yield
    finally:
        for name in names:
            registry.dropFunction(name)


def _functions(session: SparkSession) -> list[Any]:
    """The identifiers of a session's temporary functions in its registry.

    Since Spark 4.2 they begin with a schema, which the catalog omits.
    """
    state = _state(session)
    names = list(in_order(state.catalog().listTemporaryFunctions()))
    if not names or not at_least(4, 2):
        return names  # usually none; the registry has hundreds of Spark's own
    return [
        name
        for name in in_order(state.functionRegistry().listFunction())
        if str(name).startswith(_SESSION)
    ]


def _state(session: SparkSession) -> Any:
    return java_session(session).sessionState()
