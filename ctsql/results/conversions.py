"""Names and HTML of a result's columns."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

from ctsql.results.values import texts

Row = tuple[Any, ...]


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
