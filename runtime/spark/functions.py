"""Spark's own functions: their names, and what each one does."""

from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark import SparkContext

_REGISTRIES = ("FunctionRegistry", "TableFunctionRegistry")


def function_names() -> list[str]:
    """The names, in order; none where Spark does not run."""
    return sorted({name for name, _ in _functions()})


def describe_functions(names: list[str]) -> list[tuple[str, str]]:
    """Each of these functions with what it does, in one sentence or two."""
    name_set = set(names)
    descriptions: dict[str, str] = {}
    for name, registry in _functions():
        if name in name_set and name not in descriptions:
            jvm = SparkContext._jvm
            assert jvm is not None  # it listed the name
            identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
            usage = str(registry.lookupFunction(identifier).get().getUsage())
            descriptions[name] = " ".join(usage.replace("_FUNC_", name).split())
    return sorted(descriptions.items())


def _functions() -> Iterator[tuple[str, JavaObject]]:
    jvm = SparkContext._jvm
    if jvm is None:
        return
    for kind in _REGISTRIES:
        registry = getattr(jvm.org.apache.spark.sql.catalyst.analysis, kind)
        for name in str(registry.functionSet().mkString(",")).split(","):
            yield name.rpartition(".")[2], registry.builtin()
