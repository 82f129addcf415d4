"""Sessions of Spark: clones, settings, the active one, rules, built-in functions."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from ctsql.runtime.spark.internals.java import (
    java,
    java_class,
    java_session,
    running_java,
    singleton,
    typed,
)
from ctsql.runtime.spark.missing import or_else
from ctsql.runtime.spark.versions import at_least

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_STREAMING = "org.apache.spark.sql.execution.streaming"

PUSH_PROJECTION = f"{_OPTIMIZER}.PushProjectionThroughUnion"
"""A rule that fails with "key not found" on a correlated subquery over UNION ALL."""
MERGE_SUBQUERIES = f"{_OPTIMIZER}.{'MergeSubplans' if at_least(4, 2) else 'MergeScalarSubqueries'}"
"""The rule that merges subqueries."""
CHECKPOINT_FILES = (
    f"{_STREAMING}{'.checkpointing' if at_least(4, 1) else ''}.FileSystemBasedCheckpointFileManager"
)
"""Writes the checkpoints of streams by Hadoop's file systems."""


def check_classes(session: SparkSession) -> None:
    """Check that each class exists: Spark ignores an unknown rule, and fails late on another class.

    No public API has rules by another name. Needed: without it, a correlated subquery over UNION
    ALL fails, or no plan with two totals of the same rows is kept, or a stream does not start.
    """
    for name in (PUSH_PROJECTION, MERGE_SUBQUERIES, CHECKPOINT_FILES):
        java_class(java(session), name)


_FACTORY = "spark.sql.codegen.factoryMode"


def _copied(session: SparkSession) -> SparkSession:
    copy = session.newSession()
    for name, value in session.conf.getAll.items():
        if copy.conf.isModifiable(name):
            copy.conf.set(name, value)
    compare_not_in_by_value(copy)
    return copy


@or_else(_copied)
def clone_session(session: SparkSession) -> SparkSession:
    """A session with the same settings and with its own temporary views.

    No public API of PySpark clones one; ``newSession`` has Spark's defaults. A fast path: without
    it, settings are copied one by one.
    """
    return SparkSession(session.sparkContext, typed(object, java_session(session).cloneSession()))


@or_else(lambda session: list(session.conf.getAll))
def names_set(session: SparkSession) -> list[str]:
    """The names of a session's explicit settings.

    The public API, ``conf.getAll``, makes two calls for each. A fast path: without it, that one
    does.
    """
    return typed(str, java_session(session).conf().getAll().keys().mkString("\n")).split("\n")


def compare_not_in_by_value(session: SparkSession) -> None:
    """Make NOT IN treat 0.0 and -0.0 as equal.

    Spark's optimizer normalizes the keys of equi-joins and then still makes one of NOT IN over
    columns that are NOT NULL; its join compares the bits. The rule runs once more at the end.

    No public API of PySpark adds a rule. Needed: without it, NOT IN gives wrong rows for -0.0.
    """
    jvm = java(session)
    rule = singleton(jvm.org.apache.spark.sql.catalyst.optimizer, "NormalizeFloatingNumbers")
    as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
    experimental = java_session(session).experimental()
    getattr(experimental, "extraOptimizations_$eq")(as_scala([rule]).toSeq())


@lru_cache(maxsize=16)
def settings_of(session: SparkSession) -> Any:
    """A session's live settings, by name: a map of Java, looked up once.

    No public API gives a live map. A fast path: without it, ``conf.get`` and ``conf.set`` are used.
    """
    return typed(object, java_session(session).sessionState().conf().settings())


def _replaced_by_conf(session: SparkSession, name: str, value: str | None) -> str | None:
    before = session.conf.get(name, None)
    if value is None:
        session.conf.unset(name)
    else:
        session.conf.set(name, value)
    return before


@or_else(_replaced_by_conf)
def replace_setting(session: SparkSession, name: str, value: str | None) -> str | None:
    """Set a value, or Spark's default, by one call; returns the former value.

    The public API, ``conf``, makes more calls, and checks the value. A fast path: without it, that
    one does.
    """
    settings = settings_of(session)
    before: str | None = settings.remove(name) if value is None else settings.put(name, value)
    return before


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """Within the block, plans are made with another value of a setting."""
    before = replace_setting(session, name, value)
    try:
        yield
    finally:
        replace_setting(session, name, before)


@contextmanager
def without_code(session: SparkSession) -> Iterator[None]:
    """Evaluate expressions without generated code, for few rows.

    Spark does so for constants, and if code does not compile. The setting is for Spark's own tests.
    """
    with setting(session, _FACTORY, "NO_CODEGEN"):
        yield


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session this thread's active one in the JVM; Delta asks for the active session.

    No public API of PySpark sets it for a thread; Scala's does. Needed: without it, Delta commits
    with the settings of another session.
    """
    sessions, mine = _session_class(java(session)), java_session(session)
    before = sessions.getActiveSession()
    if typed(bool, before.contains(mine)):
        yield
        return
    sessions.setActiveSession(mine)
    try:
        yield
    finally:
        if typed(bool, before.isDefined()):
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@lru_cache(maxsize=2)
def _session_class(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.classic.SparkSession


_REGISTRIES = ("FunctionRegistry", "TableFunctionRegistry")


@or_else(list)
def function_names() -> list[str]:
    """The names, in order; none if Spark does not run.

    The public API, ``SHOW FUNCTIONS``, runs a query. Optional: without it, an unknown function has
    no hint, and the shell completes no names.
    """
    return sorted({name for name, _ in _spark_functions()})


@or_else(lambda names: [(name, "") for name in sorted(set(names))])
def describe_functions(names: list[str]) -> list[tuple[str, str]]:
    """Each of these functions with a short description.

    The public API, ``DESCRIBE FUNCTION``, runs a query for each. Optional: without it, SHOW
    FUNCTIONS gives names only.
    """
    name_set = set(names)
    descriptions: dict[str, str] = {}
    for name, registry in _spark_functions():
        if name in name_set and name not in descriptions:
            jvm = running_java()
            assert jvm is not None  # it listed the name
            identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
            usage = typed(str, registry.lookupFunction(identifier).get().getUsage())
            descriptions[name] = " ".join(usage.replace("_FUNC_", name).split())
    return sorted(descriptions.items())


def _spark_functions() -> Iterator[tuple[str, JavaObject]]:
    jvm = running_java()
    if jvm is None:
        return
    for kind in _REGISTRIES:
        registry = getattr(jvm.org.apache.spark.sql.catalyst.analysis, kind)
        for name in typed(str, registry.functionSet().mkString(",")).split(","):
            yield name.rpartition(".")[2], registry.builtin()
