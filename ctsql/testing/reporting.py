"""The outcomes of tests, as lines and as JUnit XML. Pure."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from ctsql.rendering.errortext import error_text, printable
from ctsql.rendering.show import PlainTable, one_line, widths_of
from ctsql.results.values import NULL, text_of
from ctsql.testing.comparing import ROWS_SHOWN, Difference
from ctsql.testing.running import Mismatch, Outcome

RED, GREEN, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[0m"


def outcome_lines(outcome: Outcome, *, has_styles: bool = False) -> Iterator[str]:
    """A line for a test, and what failed below it."""
    test = outcome.case.test
    place = f"{test.span.source.name}:{test.span.line}"
    word, style = ("ok  ", GREEN) if outcome.passed else ("FAIL", RED)
    if has_styles:
        word = f"{style}{word}{PLAIN}"
    yield f"{word} {outcome.seconds:6.2f} s  {place}  {printable(test.name)}"
    for failure in outcome.failures:
        yield from (f"  {line}".rstrip() for line in failure_lines(failure, has_styles=has_styles))


def failure_lines(failure: Mismatch, *, has_styles: bool = False) -> Iterator[str]:
    """A failure as lines: what, where, and its rows or error."""
    yield f"{failure.span.place()}: {printable(failure.message)}"
    if failure.difference is not None:
        yield from (f"  {line}" for line in difference_lines(failure.difference, has_styles))
    if failure.problem is not None:
        yield from (f"  {line}" for line in error_text(failure.problem).plain.splitlines())


def summary(outcomes: Sequence[Outcome], seconds: float, *, left_out: int = 0) -> str:
    """The last line: the numbers of passed and failed tests."""
    failure_count = sum(not o.passed for o in outcomes)
    parts = [f"{len(outcomes) - failure_count} passed"]
    if failure_count:
        parts.append(f"{failure_count} failed")
    if left_out:
        parts.append(f"{left_out} left out")
    return f"{', '.join(parts)} in {seconds:.1f} s"


def junit(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The outcomes as XML for CI systems."""
    failure_count = sum(not o.passed for o in outcomes)
    suite = ET.Element(
        "testsuite",
        name="ctsql",
        tests=str(len(outcomes)),
        failures=str(failure_count),
        errors="0",
        skipped="0",
        time=f"{seconds:.3f}",
    )
    for outcome in outcomes:
        test = outcome.case.test
        element = ET.SubElement(
            suite,
            "testcase",
            classname=printable(test.span.source.name),
            name=printable(test.name),
            file=printable(test.span.source.name),
            line=str(test.span.line),
            time=f"{outcome.seconds:.3f}",
        )
        if not outcome.passed:
            first = printable(outcome.failures[0].message)
            lines = (line for f in outcome.failures for line in failure_lines(f))
            ET.SubElement(element, "failure", message=first).text = printable("\n".join(lines))
    ET.indent(suite)
    root = ET.Element("testsuites")
    root.append(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def difference_lines(difference: Difference, has_styles: bool = False) -> Iterator[str]:
    """The rows that are missing with -, those that are not expected with +, in columns."""
    if difference.is_order:
        yield "(the same rows)"
        return
    kinds = difference.types
    signed_rows = [("-", row) for row in difference.missing] + [
        ("+", row) for row in difference.surplus
    ]
    cells = [(sign, list(map(_cell, row, kinds))) for sign, row in signed_rows]
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
        ("-", difference.missing_count, "missing"),
        ("+", difference.surplus_count, "not expected"),
    ):
        if count:
            more = f", the first {ROWS_SHOWN} are shown" if count > ROWS_SHOWN else ""
            parts.append(f"{sign} {what}: {count} row{'' if count == 1 else 's'}{more}")
    return f"({'; '.join(parts)})"


def _cell(value: object, kind: str) -> str:
    """A value as a table shows it; a text in quotes, to distinguish it from NULL and blanks.

    >>> _cell(None, "string"), _cell("NULL", "string"), _cell("it's ", "string"), _cell(1, "int")
    ('NULL', "'NULL'", "'it''s '", '1')
    """
    if value is None:
        return NULL
    text = one_line(text_of(value, kind))
    return (
        f"""'{text.replace("'", "''")}'""" if isinstance(value, str) and kind != "variant" else text
    )
