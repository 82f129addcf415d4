"""Converts a result for other libraries: methods of :class:`ctsql.Result`."""

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ctsql.catalog.errors import misuse
from ctsql.results.values import texts

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl  # type: ignore[import-not-found,unused-ignore]
    import pyarrow as pa

Row = tuple[Any, ...]


class Rows(Protocol):
    """The methods of :class:`ctsql.Result` that conversions use."""

    columns: list[str]

    def head(self, size: int) -> list[Row]:
        """The next ``size`` rows; the rest are discarded."""
        ...

    def fetchall(self) -> list[Row]:
        """All rows not taken yet."""
        ...

    def to_arrow(self) -> "pa.Table":
        """All rows as an Arrow table."""
        ...


def scalar(result: Rows) -> Any:
    """The first value of the first row; None if there is no row. Uses up the result."""
    rows = result.head(1)
    return rows[0][0] if rows else None


def to_dicts(result: Rows) -> list[dict[str, Any]]:
    """All rows not taken yet as dicts; later columns of an equal name are numbered."""
    names = unique_names(result.columns)
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def to_pandas(result: Rows) -> "pd.DataFrame":
    """The whole result as a pandas DataFrame, by way of Arrow."""
    frame: pd.DataFrame = result.to_arrow().to_pandas()
    return frame


def to_polars(result: Rows) -> "pl.DataFrame":
    """The whole result as a Polars DataFrame, by way of Arrow; Polars must be installed."""
    try:
        import polars
    except ImportError as problem:
        message = "Polars is not installed"
        detail = "Type: pip install polars"
        raise misuse(message, detail) from problem
    return polars.DataFrame(result.to_arrow())


def arrow_stream(result: Rows, requested_schema: object = None) -> object:
    """The whole result as an Arrow stream, for Polars, DuckDB, pandas or PyArrow.

    Source: the Arrow PyCapsule interface.
    """
    return result.to_arrow().__arrow_c_stream__(requested_schema)


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


def html_table(
    columns: Sequence[str], types: Sequence[str], rows: Sequence[Row], limit: int
) -> str:
    """The first rows as an HTML table, with a note below it if there are more than the limit."""

    def line(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    heads = [f"{name} ({kind})" for name, kind in zip(columns, types, strict=True)]
    body = "".join(line(texts(row, types), "td") for row in rows[:limit])
    more = f"<caption>the first {limit} rows; there are more</caption>" if rows[limit:] else ""
    return f"<table>{more}<thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table>"
