"""Rows as a table of HTML, for notebooks."""

import html
from collections.abc import Iterable, Sequence

from ctsql.results.conversions import Row
from ctsql.results.values import texts


def html_table(
    columns: Sequence[str], types: Sequence[str], rows: Sequence[Row], limit: int
) -> str:
    """The first rows as a table of HTML; a row more than the limit says that there are more."""

    def line(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    heads = [f"{name} ({kind})" for name, kind in zip(columns, types, strict=True)]
    body = "".join(line(texts(row, types), "td") for row in rows[:limit])
    more = f"<caption>the first {limit} rows; there are more</caption>" if rows[limit:] else ""
    return f"<table>{more}<thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table>"
