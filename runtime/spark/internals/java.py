"""Java and Scala over py4j.

Any module may call public Java (``java.*``, Hadoop's file systems, Delta Kernel) on what
:func:`java` returns. A name below it costs a call for each dot, a tenth of a millisecond or more,
so a name that is used often is looked up once.
"""

from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import Any

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession


def java(session: SparkSession) -> Any:
    """The packages of the session's JVM.

    No public API of PySpark calls Java. Needed: without it, nothing works.
    """
    return session._jvm


def java_session(session: SparkSession) -> Any:
    """The JVM's session, as its public Scala API has it.

    No public API gives it. Needed: without it, nothing works.
    """
    return session._jsparkSession


def java_context(session: SparkSession) -> Any:
    """The JVM's ``SparkContext``.

    No public API gives it. Needed: without it, nothing works.
    """
    return session.sparkContext._jsc.sc()


def java_frame(rows: DataFrame) -> Any:
    """The JVM's ``Dataset``.

    No public API gives it. Needed: without it, nothing works.
    """
    return rows._jdf


def query_execution(rows: DataFrame) -> Any:
    """A query's plans: ``analyzed()``, ``optimizedPlan()``, ``executedPlan()``.

    No public API gives plans but as text (``EXPLAIN``). Needed: without it, nothing works.
    """
    return rows._jdf.queryExecution()


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame that computes a logical plan.

    No public API makes one of a plan. Needed: without it, nothing works.
    """
    return DataFrame(_rows_of(java(session))(java_session(session), plan), session)


@lru_cache(maxsize=2)
def _rows_of(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.classic.Dataset.ofRows


def has_java_session(session: SparkSession) -> bool:
    """Whether a session has a JVM in this process; one of Spark Connect has none.

    No public API tells them apart. Needed: without it, a session of Spark Connect fails later.
    """
    return hasattr(session, "_jsparkSession")


def has_class(session: SparkSession, name: str) -> bool:
    """Whether a session's JVM finds a class.

    No public API reports it. Needed: without it, a session without Delta's JARs fails later.
    """
    return bool(java(session).org.apache.spark.util.Utils.classIsLoadable(name))


def has_java_frame(thing: object) -> bool:
    """Whether a value of any kind is a DataFrame of a session with a JVM.

    No public API tells DataFrames of Spark Connect apart. Needed: without it, these fail later.
    """
    return hasattr(thing, "_jdf")


def is_stopped(session: SparkSession) -> bool:
    """Whether a session's ``SparkContext`` was stopped.

    No public API of PySpark reports it. Needed: without it, ctsql would use a stopped session.
    """
    return session.sparkContext._jsc is None


def running_java() -> Any | None:
    """The packages of this process's JVM; None if none was started.

    No public API gives them without starting Spark. Needed: without it, nothing works.
    """
    return SparkContext._jvm


def singleton(package: Any, name: str) -> Any:
    """The instance of a Scala object."""
    return getattr(java_class(package, f"{name}$"), "MODULE$")


def java_class(package: Any, name: str) -> Any:
    """A class; py4j takes the name of one that is not there for that of a package."""
    found = reduce(getattr, name.split("."), package)
    if isinstance(found, JavaPackage):
        raise Py4JError(f"{name} does not exist in the JVM")
    return found


def scala_items(collection: Any) -> Iterator[Any]:
    """The items of a Scala collection."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def in_order(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence with an index, by half the calls of :func:`scala_items`.

    No public API of PySpark reads Scala's collections. Needed: without it, plans cannot be read.
    """
    return (sequence.apply(at) for at in range(sequence.size()))


def class_name(thing: Any) -> str:
    """The name of an object's class, without its package."""
    return str(thing.getClass().getSimpleName())
