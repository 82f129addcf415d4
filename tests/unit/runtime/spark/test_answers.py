"""An answer of Java's that its caller cannot use is named, wherever it would be used.

A Java that answers each call stands for Spark's and Delta's. One of its answers after the other is
null, or an object where a value belongs: the function that asked fails and is named, or the answer
is not used, and all that follows is as before.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.java_gateway import JavaMember
from pyspark import SparkContext
from pyspark.sql import DataFrame

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.schemas import Column
from ctsql.runtime.delta.internals import handle
from ctsql.runtime.delta.internals.jvm import JvmObjects
from ctsql.runtime.log.actions import DataFile
from ctsql.runtime.spark.internals import held_rows, plan_reader, plans, sessions
from ctsql.runtime.spark.missing import FAILURES, found, missing_of
from tests.helpers.internals import FUNCTIONS

VALUES: dict[str, Any] = {
    **dict.fromkeys(("commit", "id", "length", "numTotalJobs", "offset"), 1),
    **dict.fromkeys(("readVersion", "version", "lastCommitFileModificationTimestamp"), 1),
    **dict.fromkeys(("numTasks", "numSkippedTasks", "numCompletedTasks"), 1),
    **dict.fromkeys(("inputRecords", "inputBytes", "outputRecords", "outputBytes"), 1),
    **dict.fromkeys(("canANSIStoreAssign", "classIsLoadable", "deterministic", "equals"), True),
    **dict.fromkeys(("fastEquals", "isDefined", "isInstanceOf", "isOnDisk"), True),
    **dict.fromkeys(("contains", "containsPattern", "functionExists", "isEmpty"), False),
    **dict.fromkeys(("funcName", "getUsage", "mkString", "nodeName", "path"), "a"),
    **dict.fromkeys(("pathOrInlineDv", "substring", "toString", "treeString"), "a"),
    "getName": ["Plan", "Plan", "Part", "Other"],
    "getSimpleName": ["Project", "a"],
    "getNumPartitions": 0,
    "hasNext": [True, False],
    "json": "{}",
    "productArity": [0, 1, 1, 0],
    "serializeAsByteArray": b"",
    "size": [1, 1, 0, 0, 1],
    "toArray": [[1]],
}
"""What methods answer that give no object; the answers of a list in their order."""
CALLS_MAX = 500
MAY_BE_NULL = {"apply", "get", "getQueryExecution", "next", "productElement", "put", "remove"}


JAVA_FAILS = JavaMember("m", None, "o1", Mock(**{"send_command.return_value": "xro2"}))
"""py4j's own method, to which Java answers with an exception."""


class Answers:
    """What a Java answers; ``wrong`` is the answer to one call, by its number."""

    def __init__(self, values: Mapping[str, Any], wrong: Mapping[int, Any]) -> None:
        self._values = {**VALUES, **values}
        self._wrong = wrong
        self._asked = Counter[str]()
        self.calls = list[str]()
        self.answers = list[tuple[str, Any]]()

    def to(self, call: str, args: tuple[Any, ...]) -> Any:
        if None in args and "Option" not in call:
            JAVA_FAILS(None)
        self.calls.append(re.sub(r"/tmp\w+", "/file", f"{call}{args}"))
        assert len(self.calls) < CALLS_MAX
        number, method = len(self.calls), call.rpartition(".")[2]
        answer = self._values.get(method, Java(f"#{number}", self))
        if isinstance(answer, list):
            self._asked[method] += 1
            answer = answer[min(self._asked[method], len(answer)) - 1]
        self.answers.append((method, answer))
        return self._wrong.get(number, answer)


class Java:
    """An object, class, package or method of Java's."""

    def __init__(self, name: str, answers: Answers) -> None:
        self._name = name
        self._answers = answers

    def __getattr__(self, name: str) -> "Java":
        if name.startswith("__"):
            raise AttributeError(name)
        return Java(f"{self._name}.{name}", self._answers)

    def __call__(self, *args: Any) -> Any:
        return self._answers.to(self._name, args)

    def __repr__(self) -> str:
        return self._name


class Python:
    """PySpark's session, context and DataFrame over it."""

    def __init__(self, answers: Answers) -> None:
        self._jvm = Java("jvm", answers)
        self._jsparkSession = Java("jsession", answers)
        self._jsc = Java("jsc", answers)
        self._jdf = Java("jdf", answers)
        self._gateway = SimpleNamespace(jvm=self._jvm, new_array=Java("new_array", answers))
        self.conf = SimpleNamespace(get=str, set=str, unset=str)
        self.sparkContext = self._sc = self.sparkSession = self

    def table(self, _: str) -> "Python":
        return self

    select = coalesce = table

    def _collect_as_arrow(self, **_: object) -> list[object]:
        return []


FILE = DataFile('{"add": {"path": "p", "partitionValues": {}, "size": 0, "modificationTime": 0}}')
GIVEN: dict[str, Any] = {
    "action": {},
    "arg": "a",
    "coarse": False,
    "columns": [Column("k", "INT")],
    "counts": {"rows": 1},
    "data": b"",
    "file": FILE,
    "files": [FILE],
    "items": [1],
    "jobs": [1],
    "leaves": [(1, 2, 3)],
    "names": ["a"],
    "parts": ("a",),
    "places": {1: 0},
    "removed": False,
    **dict.fromkeys(("count", "epoch", "first", "last", "now_ms", "version", "written_ms"), 1),
    **dict.fromkeys(("app", "class_name", "column_type", "configuration", "domain"), "a"),
    **dict.fromkeys(("group", "id_in_log", "label", "location", "metadata", "name"), "a"),
    **dict.fromkeys(("number", "path", "schema", "separator", "text", "value"), "a"),
    "value_type": "a",
}
CLASSES = {
    "AnalysedInsert": plans.AnalysedInsert,
    "DeltaHandle": handle.DeltaHandle,
    "DeltaTransaction": handle.DeltaTransaction,
    "JvmObjects": JvmObjects,
    "VectorStore": handle.VectorStore,
    "VectorWriter": handle.VectorWriter,
}
"""They have methods."""


_OF_THE_START = {f"spark.internals.java.{name}" for name in ("start_jvm", "jvm_process")}
ASKED = sorted(set(FUNCTIONS) - _OF_THE_START)
_JAVA, _JOBS = "spark.internals.java", "spark.internals.jobs"
_PLANS, _KEPT, _ROWS = (f"spark.internals.{n}" for n in ("plans", "kept_plans", "held_rows"))
_HANDLE, _JVM = "delta.internals.handle", "delta.internals.jvm"
_INSERT = {"nodeName": ["InsertIntoStatement", "LocalRelation", "AppendData"]}
_KINDS = len(plan_reader._KINDS)
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((name, {}, {"next": "a"} if "features" in name else {}) for name in ASKED),
    *(
        (f"{_PLANS}.AnalysedInsert.{name}", {"target": None}, {"nodeName": "AppendData", **values})
        for name, values in (("rows", {"isEmpty": True}), ("target", {}), ("run", {}))
    ),
    (f"{_PLANS}.AnalysedInsert", {}, _INSERT),
    (f"{_PLANS}.is_by_row", {}, {"getSimpleName": "a"}),
    (f"{_PLANS}.are_constants", {}, {"nodeName": "LocalRelation"}),
    (f"{_PLANS}.is_definite_plan", {}, {"deterministic": False}),
    (f"{_PLANS}.is_definite_plan", {}, {"containsPattern": True}),
    (f"{_KEPT}.find_leaves", {}, {"isEmpty": True, "getSimpleName": "RDDScanExec"}),
    (f"{_KEPT}.find_leaves", {}, {"isEmpty": True}),
    (f"{_ROWS}.rows_in_jvm", {}, {"getSimpleName": "LocalRelation"}),
    (f"{_HANDLE}.DeltaHandle.snapshot_at", {"version": 2}, {}),
    (f"{_HANDLE}.DeltaHandle.snapshot_at", {"version": 0}, {}),
    (f"{_HANDLE}.DeltaHandle.frame_of", {"action": "a"}, {}),
    (f"{_JVM}.JvmObjects.vector_path", {}, {"isOnDisk": False}),
    (f"{_JOBS}.totals_of", {}, {"toString": "COMPLETE"}),
    (f"{_JOBS}.forget_ended_queries", {}, {"isEmpty": True}),
    ("spark.internals.sessions.active", {}, {"contains": True}),
    ("spark.internals.sessions.active", {}, {"isDefined": False}),
    ("spark.internals.temporary.has_view", {"parts": ("global_temp", "a")}, {}),
    ("spark.internals.temporary.with_functions", {}, {"isDefined": False}),
    *(
        (
            "spark.internals.plan_reader.optimized_plan",
            {},
            {"isInstanceOf": [False] * i + [True, False]},
        )
        for i in range(_KINDS + 1)
    ),
]
"""Each function, and other ways through some."""


class Run:
    """One call of a function, whose arguments are made by their names."""

    def __init__(
        self,
        name: str,
        given: Mapping[str, Any],
        values: Mapping[str, Any],
        wrong: Mapping[int, Any],
    ) -> None:
        self.name = name
        self.answers = Answers(values, wrong)
        self._python = Python(self.answers)
        self._given = {**GIVEN, **given}

    def outcome(self, monkeypatch: pytest.MonkeyPatch) -> str:
        for name in ("_active_spark_context", "_gateway", "_jvm"):
            thing = {"_active_spark_context": self._python}.get(name) or getattr(self._python, name)
            monkeypatch.setattr(SparkContext, name, thing)
        monkeypatch.setattr(plan_reader, "_kind_of", {})
        monkeypatch.setattr(sessions, "SparkSession", lambda _, jsession: jsession)
        monkeypatch.setattr(
            held_rows.pa.ipc, "open_stream", lambda _: SimpleNamespace(read_all=str)
        )
        function, of = FUNCTIONS[self.name], self.name.split(".")
        if of[-1] in CLASSES:
            return self._shown(self._object(of[-1]))
        me = [self._object(of[-2])] if of[-2] in CLASSES else []
        return self._shown(function(*me, **self._arguments(function)))

    def _object(self, name: str) -> Any:
        return CLASSES[name](**self._arguments(CLASSES[name].__init__))

    def _arguments(self, function: Callable[..., Any]) -> dict[str, Any]:
        parameters = list(inspect.signature(function).parameters)
        return {name: self._argument(name) for name in parameters if name != "self"}

    def _argument(self, name: str) -> Any:
        match name:
            case _ if name in self._given:
                return self._given[name]
            case "session" | "caller" | "rows" | "frame":
                return self._python
            case "jvm":
                return JvmObjects(self._python)  # type: ignore[arg-type]
            case "handle":
                return self._object("DeltaHandle")
            case "open_log":
                return lambda: Java("log", self.answers)
            case _:
                return Java(name, self.answers)

    def _shown(self, thing: Any) -> str:
        match thing:
            case DataFrame():
                return f"rows of {thing._jdf}"
            case AbstractContextManager():
                with thing:
                    return "inside"
            case list() | tuple() | Iterator():
                return f"[{', '.join(map(self._shown, thing))}]"
            case Java() | str() | int() | bytes() | None:
                return repr(thing)
            case Python():
                return "python"
            case _ if hasattr(type(thing), "__slots__"):
                return f"{type(thing)}{[self._shown(getattr(thing, n)) for n in thing.__slots__]}"
            case _:
                return f"{type(thing)}"


@pytest.mark.parametrize(("name", "given", "values"), CASES)
def test_an_answer_that_cannot_be_used(
    name: str, given: dict[str, Any], values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, by the function that asked, or nothing depends on it."""
    right = Run(name, given, values, {})
    expected = right.outcome(monkeypatch)
    for number, (method, answer) in enumerate(right.answers.answers, 1):
        if method in MAY_BE_NULL:
            continue
        for wrong in [None] if isinstance(answer, Java) else [None, SimpleNamespace()]:
            run = Run(name, given, values, {number: wrong})
            call = right.answers.calls[number - 1]
            found.clear()
            try:
                outcome = run.outcome(monkeypatch)
            except (*FAILURES, CtsqlError) as problem:
                missing = missing_of(problem)
                assert missing is not None, call
                assert missing.function, call
            else:
                is_unused = run.answers.calls == right.answers.calls and outcome == expected
                assert is_unused or found, call
            found.clear()
