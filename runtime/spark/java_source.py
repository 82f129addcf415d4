"""Classes of Java that a running JVM compiles, by the compiler that Spark has for its queries.

A JAR of ours would have to be built, shipped and put on every class path.
"""

import uuid
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


def new_object(jvm: Any, source: str, beside: Any) -> Any:
    """An object of the one class of a source, ``NAME`` in package ``ctsql``.

    Args:
        beside: as :func:`compile_java`.
    """
    # Py4J finds methods by a class's name, of which another process may have compiled one.
    name = f"Compiled_{uuid.uuid4().hex}"
    loader = compile_java(jvm, source.replace("NAME", name), beside)
    return loader.loadClass(f"ctsql.{name}").newInstance()
