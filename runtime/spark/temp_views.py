"""Temporary names in Spark's SQL for DataFrames."""

from collections.abc import Hashable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame

from ctsql.planner.lowering.context import temporary_view


class TemporaryNames:
    """A context manager: inside, :meth:`of` gives each thing one name."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._names: dict[Hashable, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def name_of(self, thing: Hashable) -> str | None:
        """The name of a thing that was given one."""
        return self._names.get(thing)

    def of(self, thing: Hashable, rows: DataFrame) -> str:
        """The name of a thing; a new name means ``rows``."""
        name = self._names.get(thing)
        if name is None:
            name = self._names[thing] = self._stack.enter_context(temporary_view(rows))
        return name
