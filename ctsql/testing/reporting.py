"""What came of tests, as lines and as JUnit's XML. Pure."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from ctsql.rendering.errortext import error_text, printable
from ctsql.testing.differences import GREEN, PLAIN, RED, difference_lines
from ctsql.testing.running import Failure, Outcome


def outcome_lines(outcome: Outcome, *, has_styles: bool = False) -> Iterator[str]:
    """A line for a test, and what failed below it."""
    case = outcome.case
    place = f"{case.span.source.name}:{case.span.line}"
    word, style = ("ok  ", GREEN) if outcome.passed else ("FAIL", RED)
    if has_styles:
        word = f"{style}{word}{PLAIN}"
    yield f"{word} {outcome.seconds:6.2f} s  {place}  {printable(case.name)}"
    for failure in outcome.failures:
        yield from (f"  {line}".rstrip() for line in failure_lines(failure, has_styles=has_styles))


def failure_lines(failure: Failure, *, has_styles: bool = False) -> Iterator[str]:
    """What failed, where, and the rows or the error behind it."""
    yield f"{failure.span.place()}: {printable(failure.message)}"
    if failure.difference is not None:
        yield from (f"  {line}" for line in difference_lines(failure.difference, has_styles))
    if failure.problem is not None:
        yield from (f"  {line}" for line in error_text(failure.problem).plain.splitlines())


def summary(outcomes: Sequence[Outcome], seconds: float, *, left_out: int = 0) -> str:
    """The last line: how many passed and failed."""
    failure_count = sum(not o.passed for o in outcomes)
    parts = [f"{len(outcomes) - failure_count} passed"]
    if failure_count:
        parts.append(f"{failure_count} failed")
    if left_out:
        parts.append(f"{left_out} left out")
    return f"{', '.join(parts)} in {seconds:.1f} s"


def junit(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The XML that CI systems read: a suite of test cases."""
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
        case = outcome.case
        element = ET.SubElement(
            suite,
            "testcase",
            classname=printable(case.span.source.name),
            name=printable(case.name),
            file=printable(case.span.source.name),
            line=str(case.span.line),
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
