"""Variables of a Python program that hold rows, read by a statement under their names.

Only a program that asks for it has its variables read, and an object of the warehouse comes first:
see :meth:`ctsql.Connection.execute`.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ctsql.runtime.rows.given_rows import frame_of
from ctsql.runtime.spark.internals.java import has_java_frame

_GIVES_ROWS = ("__arrow_c_stream__", "__arrow_c_array__", "to_arrow")
"""Methods of other libraries' tables."""


def holds_rows(value: object) -> bool:
    """Whether a value is a table of some library or a list of dicts.

    >>> holds_rows([{"k": 1}]), holds_rows([(1,)]), holds_rows([]), holds_rows("k")
    (True, False, False, False)
    """
    if isinstance(value, type | ModuleType):
        return False  # a class has the methods of its instances
    if isinstance(value, list):
        return bool(value) and all(isinstance(row, Mapping) for row in value)
    return has_java_frame(value) or any(hasattr(value, name) for name in _GIVES_ROWS)


class PythonVariables:
    """The variables that a call may read, by name, as they are when they are first read.

    A reader that can be read once is so read once, however often statements name it.

    Args:
        scopes: where a name is looked up, one after the other.
    """

    def __init__(self, scopes: Sequence[Mapping[str, Any]] = ()) -> None:
        self._scopes = scopes
        self._frames: dict[str, DataFrame] = {}

    def has(self, name: str) -> bool:
        """Whether a variable of exactly this name holds rows."""
        return name in self._frames or holds_rows(self._value(name))

    def rows(self, session: SparkSession, name: str) -> DataFrame:
        """The rows of a variable.

        Raises:
            INVALID_USAGE, DATA_ERROR: Spark has no type for them; see :func:`frame_of`.
        """
        if name not in self._frames:
            self._frames[name] = frame_of(session, self._value(name))
        return self._frames[name]

    def names(self) -> Iterator[str]:
        """The variables that hold rows."""
        earlier_names: set[str] = set()
        for scope in self._scopes:
            new = [name for name in scope if name not in earlier_names]
            earlier_names.update(new)
            yield from (name for name in new if holds_rows(scope[name]))

    def _value(self, name: str) -> object:
        """What a name means: the first scope that has it decides."""
        return next((scope[name] for scope in self._scopes if name in scope), None)


NO_VARIABLES = PythonVariables()
