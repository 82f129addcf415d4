"""Java and Scala over py4j: objects, the process of the JVM, exceptions.

Any module may call public Java (``java.*``, Hadoop's file systems, Delta Kernel) on the result of
:func:`java`. Each dot of a name below it costs a call of a tenth of a millisecond or more, so
frequent names are looked up once.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, reduce
from subprocess import Popen
from typing import IO, Any, TypeVar, cast

from py4j.java_gateway import JavaGateway, JavaObject, JavaPackage, is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

from ctsql.runtime.spark.versions import at_least

T = TypeVar("T")


def java(session: SparkSession) -> Any:
    """The packages of the session's JVM.

    No public API of PySpark calls Java. Needed: without it, nothing works.
    """
    return session._jvm


def java_session(session: SparkSession) -> Any:
    """The JVM's session, with its public Scala API.

    No public API gives it. Needed: without it, nothing works.
    """
    return session._jsparkSession


def java_context(session: SparkSession) -> Any:
    """The JVM's ``SparkContext``.

    No public API gives it. Needed: without it, nothing works.
    """
    return typed(object, session.sparkContext._jsc.sc())


def java_frame(rows: DataFrame) -> Any:
    """The JVM's ``Dataset``.

    No public API gives it. Needed: without it, nothing works.
    """
    return rows._jdf


def query_execution(rows: DataFrame) -> Any:
    """A query's plans: ``analyzed()``, ``optimizedPlan()``, ``executedPlan()``.

    The public API gives plans only as text (``EXPLAIN``). Needed: without it, nothing works.
    """
    return typed(object, rows._jdf.queryExecution())


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame that computes a logical plan.

    No public API makes one of a plan. Needed: without it, nothing works.
    """
    return java_rows(session, _rows_of(java(session))(java_session(session), plan))


def java_rows(session: SparkSession, rows: Any) -> DataFrame:
    """A DataFrame over a ``Dataset`` of the JVM.

    No public API makes one. Needed: without it, nothing works.
    """
    return DataFrame(typed(object, rows), session)


@lru_cache(maxsize=2)
def _rows_of(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.classic.Dataset.ofRows


def has_java_session(session: SparkSession) -> bool:
    """Whether a session has a JVM in this process; a Spark Connect session has none.

    No public API distinguishes them. Needed: without it, a session of Spark Connect fails later.
    """
    return hasattr(session, "_jsparkSession")


def has_class(session: SparkSession, name: str) -> bool:
    """Whether a session's JVM finds a class.

    No public API reports it. Needed: without it, a session without Delta's JARs fails later.
    """
    return typed(bool, java(session).org.apache.spark.util.Utils.classIsLoadable(name))


def has_java_frame(thing: object) -> bool:
    """Whether a value of any kind is a DataFrame of a session with a JVM.

    No public API distinguishes DataFrames of Spark Connect. Needed: without it, these fail later.
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


def own_java() -> Any | None:
    """The packages of the JVM that this process started, which outlives it by seconds; else None.

    No public API tells it from a JVM that another process started. Needed: without it, the JVM of a
    killed process may replace a commit.
    """
    gateway = SparkContext._gateway
    return None if gateway is None or gateway.proc is None else gateway.jvm


def singleton(package: Any, name: str) -> Any:
    """The instance of a Scala object."""
    return getattr(java_class(package, f"{name}$"), "MODULE$")


def java_class(package: Any, name: str) -> Any:
    """A class; py4j returns a package for an unknown name."""
    found = reduce(getattr, name.split("."), package)
    if isinstance(found, JavaPackage):
        raise Py4JError(f"{name} does not exist in the JVM")
    return found


def scala_items(collection: Any) -> Iterator[Any]:
    """The items of a Scala collection."""
    iterator = collection.iterator()
    while typed(bool, iterator.hasNext()):
        yield iterator.next()


def in_order(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence with an index, by half the calls of :func:`scala_items`.

    No public API of PySpark reads Scala's collections. Needed: without it, plans cannot be read.
    """
    return (sequence.apply(at) for at in range(sequence.size()))


def typed(kind: type[T], answer: Any) -> T:
    """An answer of Java, checked to have a Python type, or to be an ``object`` that is not None.

    ``bool`` and ``str`` would convert any object, and None is false, equals nothing, and is null
    for Java. Every answer that leaves the two packages, or is a condition, passes here;
    :mod:`ctsql.runtime.spark.missing` then names the function that asked. Raises TypeError.
    """
    if answer is None if kind is object else type(answer) is not kind:
        raise TypeError(f"{type(answer).__name__} instead of {kind.__name__}")
    return cast("T", answer)


def class_name(thing: Any) -> str:
    """The name of an object's class, without its package."""
    return typed(str, thing.getClass().getSimpleName())


def has_context() -> bool:
    """Whether this process has a ``SparkContext``; there is at most one.

    The public API, ``SparkSession.getActiveSession``, reports only sessions. Needed: without it, a
    second JVM would be started, and then fail.
    """
    return SparkContext._active_spark_context is not None


def start_jvm(conf: SparkConf, output: IO[bytes]) -> SparkContext:
    """Start the JVM and the process's ``SparkContext``; Java prints to ``output``.

    The public API, ``SparkSession.builder``, lets Java print to the terminal. Needed: without it,
    each start prints Spark's and Ivy's lines.
    """
    from pyspark.java_gateway import launch_gateway

    both = {"stdout": output, "stderr": output}
    # A JVM outlives its context, and PySpark has one in a process.
    gateway = SparkContext._gateway or launch_gateway(conf, both)  # type: ignore[no-untyped-call]
    return SparkContext(conf=conf, gateway=gateway)


def jvm_process() -> Popen[bytes]:
    """The process of the JVM that was started.

    No public API ends the JVM before this process. Needed: without it, ``ctsql warm-up`` cannot
    make an archive, which Java writes at its end.
    """
    gateway = SparkContext._gateway
    assert gateway is not None  # it was started
    process: Popen[bytes] = gateway.proc
    return process


_CHAIN_MAX = 12


def causes(problem: PySparkException | Py4JJavaError) -> list[JavaObject]:
    """The Java throwable of an exception and its causes, outermost first; empty for Python errors.

    No public API gives the causes. Needed: without it, an error on a row would look like
    any other error of a job.
    """
    if isinstance(problem, Py4JJavaError):
        return list(_chain(problem.java_exception))
    return list(_chain(problem._origin)) if isinstance(problem, CapturedException) else []


def _chain(java: JavaObject | None) -> Iterator[JavaObject]:
    for _ in range(_CHAIN_MAX):
        if java is None:
            return
        yield java
        java = java.getCause()


def is_a(thing: JavaObject, class_name: str) -> bool:
    """Whether a Java object is an instance of a class or interface.

    No public API of PySpark reports it. Needed: without it, nothing works.
    """
    return typed(bool, is_instance_of(SparkContext._gateway, thing, class_name))


def spark_error_utils() -> Any:
    """Reads the condition, the state, the parameters and the places of a ``SparkThrowable``.

    No public API reads them of a cause. Needed: without it, errors have no condition.
    """
    gateway = SparkContext._gateway
    assert gateway is not None  # it threw
    if not at_least(4, 1):
        return _AskedDirectly(gateway)
    return java_class(gateway.jvm, "PythonErrorUtils")


class _AskedDirectly:
    """The methods of Spark 4.1's ``PythonErrorUtils``, by Java's reflection.

    py4j does not find the methods of Delta's exceptions by their interface alone.
    """

    def __init__(self, gateway: JavaGateway) -> None:
        self._types = gateway.new_array(gateway.jvm.java.lang.Class, 0)
        self._arguments = gateway.new_array(gateway.jvm.java.lang.Object, 0)

    def __getattr__(self, name: str) -> Callable[[JavaObject], Any]:
        def ask(java: JavaObject) -> Any:
            return java.getClass().getMethod(name, self._types).invoke(java, self._arguments)

        return ask
