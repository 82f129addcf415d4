"""A result as what other libraries work with. The methods are :class:`ctsql.Result`'s."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ctsql.catalog.errors import error

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl  # type: ignore[import-not-found,unused-ignore]
    import pyarrow as pa

Row = tuple[Any, ...]


class Conversions:
    """The conversions that follow from rows and from Arrow."""

    columns: list[str]

    @abstractmethod
    def head(self, count: int) -> list[Row]:
        """At most ``count`` first rows."""

    @abstractmethod
    def fetchall(self) -> list[Row]:
        """All rows not taken yet."""

    @abstractmethod
    def to_arrow(self) -> "pa.Table":
        """The whole result as an Arrow table."""

    def scalar(self) -> Any:
        """The first value of the first row; None if there is no row. Uses up the result."""
        rows = self.head(1)
        return rows[0][0] if rows else None

    def to_dicts(self) -> list[dict[str, Any]]:
        """All rows not taken yet as dicts; of columns of one name the later ones are numbered."""
        names = unique_names(self.columns)
        return [dict(zip(names, row, strict=True)) for row in self.fetchall()]

    def to_pandas(self) -> "pd.DataFrame":
        """The whole result as a pandas DataFrame, by way of Arrow."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> "pl.DataFrame":
        """The whole result as a Polars DataFrame, by way of Arrow; Polars must be installed."""
        try:
            import polars
        except ImportError as problem:
            raise error(
                "INVALID_USAGE",
                message="Polars is not installed",
                detail="Type: pip install polars",
            ) from problem
        return polars.DataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The whole result for whatever reads Arrow streams: Polars, DuckDB, pandas, PyArrow.

        Source: the Arrow PyCapsule interface.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def unique_names(names: Iterable[str]) -> list[str]:
    """Number later ones of equal names: a, a_2, a_3."""
    used: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in used:
            number += 1
            candidate = f"{name}_{number}"
        used.append(candidate)
    return used
