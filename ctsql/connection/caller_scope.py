"""The Python variables that are visible where a program calls ctsql.

They are read only if the program asks for it; see :meth:`ctsql.Connection.execute`. The error about
an unknown name reads them too, to explain how to read the variable of that name.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import Name, did_you_mean

if TYPE_CHECKING:
    from ctsql.connection.open_warehouse import OpenWarehouse
    from ctsql.runtime.engine import Engine
    from ctsql.runtime.rows.given_rows import PythonVariables

_INLINE = {"<listcomp>", "<setcomp>", "<dictcomp>"}
"""Frames of their own until Python 3.12, though they read as a part of the function around them."""


class CallerVariables:
    """The variables that a call may read, and those that it could.

    Args:
        explicit: variables by name, given to the call. frame: the caller's.
        namespace: the caller's variables, if there is no frame.
    """

    def __init__(
        self,
        explicit: Mapping[str, Any],
        frame: FrameType | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> None:
        self.explicit = explicit
        self._frame = frame
        self._namespace = namespace
        self._readable: dict[bool, PythonVariables] = {}

    def readable(self, *, all_of_caller: bool) -> "PythonVariables":
        """What statements may read: what is given, and the caller's where that is asked for."""
        from ctsql.runtime.rows.given_rows import PythonVariables

        if all_of_caller not in self._readable:
            of_caller = self._scopes() if all_of_caller else ()
            self._readable[all_of_caller] = PythonVariables((self.explicit, *of_caller))
        return self._readable[all_of_caller]

    def _scopes(self) -> tuple[Mapping[str, Any], ...]:
        """The local variables of the caller, then the global ones of its module."""
        if self._namespace is not None:
            return (self._namespace,)
        frame = self._frame
        scopes: list[Mapping[str, Any]] = []
        while frame is not None and frame.f_code.co_name in _INLINE:
            scopes.append(frame.f_locals)
            frame = frame.f_back
        if frame is not None:
            scopes += [frame.f_locals, frame.f_globals]
        return tuple(scopes)

    @contextmanager
    def hints(self, *, all_of_caller: bool, is_definition: bool) -> Iterator[None]:
        """Add to the error about an unknown name how to read the variable of that name."""
        try:
            yield
        except CtsqlError as problem:
            name = _unqualified(problem)
            if name is not None:
                hint = self._hint(name, all_of_caller=all_of_caller, is_definition=is_definition)
                problem.hint = hint or problem.hint
            raise

    def _hint(self, name: str, *, all_of_caller: bool, is_definition: bool) -> str:
        variables = self.readable(all_of_caller=True)
        if variables.has(name):
            if is_definition:
                return (
                    f"A definition cannot read the Python variable {name}. Make a table of its "
                    f'rows: con.execute("CREATE TABLE t AS SELECT * FROM {name}", '
                    f'variables={{"{name}": {name}}})'
                )
            return f"To read the Python variable {name}: SET python_variables = true"
        if not all_of_caller:
            return ""
        value = next((scope[name] for scope in self._scopes() if name in scope), None)
        if value is not None:
            return f"The Python variable {name} is a {type(value).__name__}, which holds no rows."
        return did_you_mean(name, variables.names())


NOWHERE = CallerVariables({})


def caller_variables(variables: Mapping[str, Any] | None) -> CallerVariables:
    """The variables of the program that has called ctsql."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    return CallerVariables(variables or {}, frame)


def _is_own(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == "ctsql" or name.startswith("ctsql.")


def _unqualified(problem: CtsqlError) -> str | None:
    """The name as typed where a statement reads a relation that is not there, without a schema."""
    reads = problem.condition == "UNKNOWN_RELATION" and problem.given.get("kind") == "relation"
    if not reads or problem.span is None:
        return None
    text = problem.span.text
    inner = text[1:-1] if text[:1] == text[-1:] in ('"', "`") else text
    return inner if inner.isidentifier() else None


@contextmanager
def with_variables(
    con: "OpenWarehouse", engine: "Engine", variables: CallerVariables, *, once: bool, again: bool
) -> Iterator[None]:
    """Let a statement read the variables that it may; errors say how it could read another.

    Args:
        once: its SQL is evaluated now and never again. again: it is a definition.
    """
    reads_all = con._settings.reads_variables
    if variables is NOWHERE or not (once or again):
        yield
        return
    if variables.explicit:
        from ctsql.runtime.statements.objects.name_resolution import check_free

        catalog = engine.refresh_catalog()
        for name in variables.explicit:
            check_free(catalog, Name(con.search_schema, name), None, quiet=False)
    with (
        variables.hints(all_of_caller=reads_all, is_definition=again),
        engine.external.with_variables(variables.readable(all_of_caller=reads_all)),
    ):
        yield


@contextmanager
def with_own_functions(engine: "Engine", *, once: bool) -> Iterator[None]:
    """Let a statement that runs once call the functions of ``con.spark``; definitions must not."""
    from ctsql.runtime.spark.internals.temporary import has_function, with_functions

    if once:
        with with_functions(engine.session, engine.caller):
            yield
        return
    try:
        yield
    except CtsqlError as problem:
        name = str(problem.given.get("function", ""))
        if problem.condition != "UNKNOWN_FUNCTION" or not has_function(engine.caller, name):
            raise
        raise error(
            "NOT_DURABLE",
            span=problem.span,
            cause=problem,
            what=f"function {name}",
            where="in a definition",
            detail="It is known to this process only; others run definitions, too.",
            hint="Write it in SQL, or compute the column before the rows are inserted.",
        ) from problem
