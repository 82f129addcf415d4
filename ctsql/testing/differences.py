"""A difference of rows as lines. Pure."""

from collections.abc import Iterator, Sequence

from ctsql.rendering.show import PlainTable, one_line, widths_of
from ctsql.results.values import NULL, text_of
from ctsql.testing.comparing import ROWS_SHOWN, Difference

RED, GREEN, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[0m"


def difference_lines(difference: Difference, has_styles: bool = False) -> Iterator[str]:
    """The rows that are missing with -, those that are not expected with +, in columns."""
    if difference.is_order:
        yield "(the same rows)"
        return
    kinds = difference.types
    signed_rows = [("-", row) for row in difference.missing] + [
        ("+", row) for row in difference.surplus
    ]
    cells = [(sign, _cells(row, kinds)) for sign, row in signed_rows]
    widths = widths_of([row for _, row in cells], len(kinds))
    table = PlainTable(difference.columns, kinds, widths)
    yield f" {table.line(table.heads)}"
    for sign, row in cells:
        line = f"{sign}{table.line(row)}"
        yield f"{RED if sign == '-' else GREEN}{line}{PLAIN}" if has_styles else line
    yield _legend(difference)


def _legend(difference: Difference) -> str:
    parts = []
    for sign, count, what in (
        ("-", difference.missing_count, "expected and not there"),
        ("+", difference.surplus_count, "there and not expected"),
    ):
        if count:
            more = f", the first {ROWS_SHOWN} are shown" if count > ROWS_SHOWN else ""
            parts.append(f"{sign} {what}: {count} row{'' if count == 1 else 's'}{more}")
    return f"({'; '.join(parts)})"


def _cells(row: Sequence[object], kinds: Sequence[str]) -> list[str]:
    return [_cell(value, kind) for value, kind in zip(row, kinds, strict=True)]


def _cell(value: object, kind: str) -> str:
    """A value as a table shows it; a text in quotes, by which it differs from NULL and from blanks.

    >>> _cell(None, "string"), _cell("NULL", "string"), _cell("it's ", "string"), _cell(1, "int")
    ('NULL', "'NULL'", "'it''s '", '1')
    """
    if value is None:
        return NULL
    text = one_line(text_of(value, kind))
    return (
        f"""'{text.replace("'", "''")}'""" if isinstance(value, str) and kind != "variant" else text
    )
