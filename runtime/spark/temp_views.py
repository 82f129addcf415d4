"""Temporary names in Spark's SQL for DataFrames."""

from collections.abc import Hashable
from contextlib import ExitStack

from pyspark.sql import DataFrame

from ctsql.planner.lowering.context import temporary_view


class TemporaryNames(ExitStack):
    """A context manager: inside, :meth:`of` gives each thing one name."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[Hashable, str] = {}

    def name_of(self, thing: Hashable) -> str | None:
        """The name of a thing that was given one."""
        return self._names.get(thing)

    def of(self, thing: Hashable, rows: DataFrame) -> str:
        """The name of a thing; a new name means ``rows``."""
        name = self._names.get(thing)
        if name is None:
            name = self._names[thing] = self.enter_context(temporary_view(rows))
        return name
