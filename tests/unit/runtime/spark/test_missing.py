"""What counts as a missing method, and what is done without one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.types import StructType

import ctsql.runtime.delta.internals as delta_internals
import ctsql.runtime.spark.internals as spark_internals
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.java import (
    has_class,
    in_order,
    java_class,
    jvm_process,
    singleton,
    spark_error_utils,
)
from ctsql.runtime.spark.internals.jobs import jobs_started
from ctsql.runtime.spark.missing import found, missing_of, or_else
from ctsql.runtime.spark.start.session import start_spark

DEF = ast.FunctionDef
CALL = "An error occurred while calling o5.gone. Trace:\npy4j.Py4JException: "


@pytest.fixture(autouse=True)
def _nothing_is_found() -> Iterator[None]:
    found.clear()
    yield
    found.clear()


def _attribute() -> None:
    SparkContext._gone  # type: ignore[attr-defined]  # noqa: B018


def _of_rows() -> None:
    jdf = Mock()
    jdf.schema().json.return_value = StructType().json()
    DataFrame(jdf, Mock())._gone  # noqa: B018  Any other name is a column's


def _name() -> None:
    from pyspark.java_gateway import gone  # type: ignore[attr-defined]  # noqa: F401


def _package() -> None:
    JavaPackage("org.apache.gone", None)()


def _raised(problem: Exception) -> None:
    raise problem


@pytest.mark.parametrize(
    ("fail", "what"),
    [
        (
            lambda: _raised(Py4JError(f"{CALL}Method gone([]) does not exist\n\tat x")),
            "Method gone",
        ),
        (
            lambda: _raised(Py4JError(f"{CALL}Constructor a.B([]) does not exist")),
            "Constructor a.B",
        ),
        (lambda: _raised(Py4JError("a.B does not exist in the JVM")), "a.B does not exist"),
        (_package, "'JavaPackage' object is not callable"),
        (_attribute, "'SparkContext' has no attribute '_gone'"),
        (_of_rows, "Attribute `_gone` is not supported"),
        (_name, "cannot import name 'gone'"),
    ],
    ids=["method", "constructor", "class", "package", "attribute", "rows", "name"],
)
def test_a_missing_method(fail, what: str) -> None:  # type: ignore[no-untyped-def]
    """Each is an error of its own, and another way is taken."""

    @or_else(lambda: "slow")
    def fast() -> str:
        fail()
        return "fast"

    with pytest.raises(CtsqlError, match="SPARK_VERSION") as told, translate_spark_errors():
        fail()
    assert what in str(told.value.detail)
    assert fast() == "slow"
    assert what in str(next(iter(found.values())))


@pytest.mark.parametrize(
    "problem",
    [
        Py4JError(f"{CALL}Target Object ID does not exist for this gateway :o5"),
        Py4JNetworkError("Answer from Java side is empty"),
        TypeError("'dict' object is not callable"),
        AttributeError("'dict' object has no attribute '_gone'", name="_gone", obj={}),
        AttributeError("no attribute 'gone'", name="gone", obj=SparkContext),
        ValueError("Method gone([]) does not exist"),
    ],
    ids=["object", "network", "call", "own", "public", "value"],
)
def test_any_other_failure(problem: Exception) -> None:
    """It is raised, and nothing is noted."""

    @or_else(lambda: "slow")
    def fast() -> None:
        raise problem

    with pytest.raises(type(problem)):
        fast()
    assert missing_of(problem) is None
    assert found == {}


def test_spark_is_gone_in_a_private_call() -> None:
    """It is no other answer, and no other way is taken from then on."""
    session = _session(None)
    session.sparkContext._jsc.sc().dagScheduler().numTotalJobs.side_effect = ConnectionRefusedError
    with pytest.raises(ConnectionError):
        jobs_started(session)
    assert found == {}
    with pytest.raises(CtsqlError, match="connection to Spark was lost"), translate_spark_errors():
        jobs_started(session)


def _session(answer: object) -> Mock:
    """A session whose Java counts its jobs so."""
    session = Mock()
    session.sparkContext._jsc.sc().dagScheduler().numTotalJobs.return_value = answer
    return session


@pytest.mark.parametrize("answer", ["many", None, [], object()])
def test_another_answer(answer: object) -> None:
    """A value that its function of internals cannot use is told like a missing method."""
    with pytest.raises(CtsqlError, match="SPARK_VERSION") as told, translate_spark_errors():
        list(in_order(answer))
    assert "(spark.internals.java.in_order): without it" in str(told.value.detail)
    found.clear()
    assert jobs_started(_session(3)) == 3
    assert jobs_started(_session(answer)) == 0
    assert list(found) == ["spark.internals.jobs.jobs_started"]
    with pytest.raises(CtsqlError, match="SPARK_VERSION") as told, translate_spark_errors():
        has_class(_session(answer), "a.B")  # which is neither true nor false
    assert "(spark.internals.java.has_class): without it" in str(told.value.detail)


def test_each_answer_has_its_type() -> None:
    """Python's own conversions take any object for true, and null may only be an answer as such.

    A public function passes an answer of Java's on through ``typed``; mypy sees to other types.
    """
    for package in (spark_internals, delta_internals):
        for file in Path(package.__path__[0]).glob("*.py"):
            text = file.read_text()
            assert re.findall(r"\b(?:bool|int|bytes|return str)\(.*", text) == []
            tree = ast.parse(text)
            public = [n for n in tree.body if getattr(n, "name", "_")[0] != "_"]
            for function in (n for one in public for n in ast.walk(one) if isinstance(n, DEF)):
                if function.name[0] == "_" or ast.unparse(function.returns or tree) != "Any":
                    continue
                for node in ast.walk(function):
                    match node:
                        case ast.Return(value=ast.Call(func=ast.Attribute(value=asked))):
                            assert ast.unparse(asked) == "self", ast.unparse(node)


def test_a_class_that_is_not_there_is_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """py4j would call it at another place, without its name."""

    class Package(JavaPackage):  # type: ignore[misc]
        def __getattr__(self, name: str) -> "Package":
            return Package(f"{self._fqn}.{name}", None)

    with pytest.raises(Py4JError, match=r"^Gone\$ does not exist in the JVM"):
        singleton(Package("org.apache", None), "Gone")
    with pytest.raises(Py4JError, match=r"^a\.Gone does not exist in the JVM"):
        java_class(Package("org.apache", None), "a.Gone")
    monkeypatch.setattr(SparkContext, "_gateway", Mock(jvm=Package("jvm", None)))
    monkeypatch.setattr("ctsql.runtime.spark.internals.java.at_least", lambda *_: True)
    with pytest.raises(CtsqlError, match="SPARK_VERSION") as told, translate_spark_errors():
        spark_error_utils()
    assert "(spark.internals.java.spark_error_utils): without it" in str(told.value.detail)


def test_the_start_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called before there is a session is named, too."""
    monkeypatch.delattr("pyspark.java_gateway.launch_gateway")
    with pytest.raises(CtsqlError, match="SPARK_VERSION") as told:
        start_spark({})
    assert "(spark.internals.java.start_jvm): without it, each start" in str(told.value.detail)
    monkeypatch.delattr(SparkContext, "_active_spark_context")
    with pytest.raises(CtsqlError, match="SPARK_VERSION") as told:
        start_spark({})
    assert "(spark.internals.java.has_context): without it" in str(told.value.detail)
    monkeypatch.delattr(SparkContext, "_gateway")
    with pytest.raises(CtsqlError, match="SPARK_VERSION") as told, translate_spark_errors():
        jvm_process()
    assert "(spark.internals.java.jvm_process)" in str(told.value.detail)


def test_a_function_with_other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A private one of PySpark's; a wrong call elsewhere is raised as it is."""
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda: None)
    with pytest.raises(CtsqlError, match="SPARK_VERSION") as told:
        start_spark({})
    assert "takes 0 positional arguments but 2 were given" in str(told.value.detail)
    assert "(spark.internals.java.start_jvm)" in str(told.value.detail)
    with pytest.raises(TypeError), translate_spark_errors():
        _attribute(1)  # type: ignore[call-arg]
