"""The names of Spark's own functions, and what each one does."""

from collections.abc import Iterator

from py4j.java_gateway import JavaObject

from ctsql.runtime.spark.internals.java import running_java
from ctsql.runtime.spark.missing import or_else

_REGISTRIES = ("FunctionRegistry", "TableFunctionRegistry")


@or_else(list)
def function_names() -> list[str]:
    """The names, in order; none where Spark does not run.

    The public API, ``SHOW FUNCTIONS``, runs a query. Optional: without it, an unknown function has
    no hint, and the shell completes no names.
    """
    return sorted({name for name, _ in _functions()})


@or_else(lambda names: [(name, "") for name in sorted(set(names))])
def describe_functions(names: list[str]) -> list[tuple[str, str]]:
    """Each of these functions with what it does, in one sentence or two.

    The public API, ``DESCRIBE FUNCTION``, runs a query for each. Optional: without it, SHOW
    FUNCTIONS gives names only.
    """
    name_set = set(names)
    descriptions: dict[str, str] = {}
    for name, registry in _functions():
        if name in name_set and name not in descriptions:
            jvm = running_java()
            assert jvm is not None  # it listed the name
            identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
            usage = str(registry.lookupFunction(identifier).get().getUsage())
            descriptions[name] = " ".join(usage.replace("_FUNC_", name).split())
    return sorted(descriptions.items())


def _functions() -> Iterator[tuple[str, JavaObject]]:
    jvm = running_java()
    if jvm is None:
        return
    for kind in _REGISTRIES:
        registry = getattr(jvm.org.apache.spark.sql.catalyst.analysis, kind)
        for name in str(registry.functionSet().mkString(",")).split(","):
            yield name.rpartition(".")[2], registry.builtin()
