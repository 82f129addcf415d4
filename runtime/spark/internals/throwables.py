"""The Java exceptions behind those of Python, by Spark's own help for Python."""

from collections.abc import Callable, Iterator
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from ctsql.runtime.spark.versions import at_least

_CHAIN_MAX = 12


def causes(problem: PySparkException | Py4JJavaError) -> list[JavaObject]:
    """The Java throwable of an exception and its causes, outermost first; none of Python's own.

    No public API gives the causes. Needed: without it, an error on a row could not be told from
    other errors of a job.
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
    """Whether an object of Java's is of a class or interface.

    No public API of PySpark reports it. Needed: without it, nothing works.
    """
    return bool(is_instance_of(SparkContext._gateway, thing, class_name))


def spark_error_utils() -> Any:
    """Reads the condition, the state, the parameters and the places of a ``SparkThrowable``.

    No public API reads them of a cause. Needed: without it, errors have no condition.
    """
    gateway = SparkContext._gateway
    assert gateway is not None  # it threw
    return gateway.jvm.PythonErrorUtils if at_least(4, 1) else _AskedDirectly(gateway)


class _AskedDirectly:
    """What Spark's ``PythonErrorUtils`` does since 4.1: its methods, by Java's reflection.

    py4j does not find what an exception of Delta's has from the interface alone.
    """

    def __init__(self, gateway: JavaGateway) -> None:
        self._types = gateway.new_array(gateway.jvm.java.lang.Class, 0)
        self._arguments = gateway.new_array(gateway.jvm.java.lang.Object, 0)

    def __getattr__(self, name: str) -> Callable[[JavaObject], Any]:
        def ask(java: JavaObject) -> Any:
            return java.getClass().getMethod(name, self._types).invoke(java, self._arguments)

        return ask
