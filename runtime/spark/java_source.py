"""Classes of Java that a running JVM compiles, by the compiler that Spark has for its queries.

A JAR of ours would have to be built, shipped and put on every class path.
"""

from typing import Any


def compile_java(jvm: Any, source: str, beside: Any) -> Any:
    """The class loader of a source's classes.

    Args:
        beside: an object whose class the source may name, with all that this one may.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(beside.getClass().getClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader()
