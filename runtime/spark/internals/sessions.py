"""Sessions of Spark: clones, settings without checks, the active one, rules of the optimizer."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from ctsql.runtime.spark.internals.java import java, java_session, singleton
from ctsql.runtime.spark.missing import or_else

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
    return SparkSession(session.sparkContext, java_session(session).cloneSession())


@or_else(lambda session: list(session.conf.getAll))
def names_set(session: SparkSession) -> list[str]:
    """The names of the settings that a session was given values of, by few calls of the JVM.

    The public API, ``conf.getAll``, makes two calls for each. A fast path: without it, that one
    does.
    """
    return str(java_session(session).conf().getAll().keys().mkString("\n")).split("\n")


def compare_not_in_by_value(session: SparkSession) -> None:
    """Make 0.0 and -0.0 equal keys of every NOT IN.

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
    """A session's settings as they are at any time, by name: a map of Java, looked up once.

    No public API gives a live map. A fast path: without it, ``conf.get`` and ``conf.set`` are used.
    """
    return java_session(session).sessionState().conf().settings()


def _replaced_by_conf(session: SparkSession, name: str, value: str | None) -> str | None:
    before = session.conf.get(name, None)
    if value is None:
        session.conf.unset(name)
    else:
        session.conf.set(name, value)
    return before


@or_else(_replaced_by_conf)
def replace_setting(session: SparkSession, name: str, value: str | None) -> str | None:
    """Give a setting another value, or Spark's default, by one call; returns the value before.

    The public API, ``conf``, makes more calls, and checks the value. A fast path: without it, that
    one does.
    """
    settings = settings_of(session)
    before: str | None = settings.remove(name) if value is None else settings.put(name, value)
    return before


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """A session with another value of a setting, for what is planned inside."""
    before = replace_setting(session, name, value)
    try:
        yield
    finally:
        replace_setting(session, name, before)


@contextmanager
def without_code(session: SparkSession) -> Iterator[None]:
    """A session that evaluates expressions as they are, and makes no code for them, for few rows.

    As Spark does itself with constants, and where code does not compile. The setting is for Spark's
    own tests.
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
    if before.contains(mine):
        yield
        return
    sessions.setActiveSession(mine)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


@lru_cache(maxsize=2)
def _session_class(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.classic.SparkSession
