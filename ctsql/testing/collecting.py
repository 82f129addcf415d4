"""The tests of a folder. An unreadable TEST is a failing test; the others are run."""

from collections.abc import Sequence
from dataclasses import dataclass

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.names import DEFAULT_SCHEMA
from ctsql.catalog.spans import Source, Span
from ctsql.planner.folder import Folder, read_folder
from ctsql.planner.syntax import ast as st, parse, split
from ctsql.planner.syntax.tokens.tokenizer import Kind, tokenise


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One TEST statement."""

    name: str
    span: Span  # its text
    schema: str  # the schema of its unqualified names
    # the statement; None if it is unreadable, and then ``problem`` is set
    test: st.Test | None = None
    problem: CtsqlError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of a folder, in order of text, and its definitions."""

    folder: Folder
    cases: tuple[Case, ...]

    def select(self, part: str) -> "Suite":
        """The tests that have a text in their names, in any case."""
        text = part.casefold()
        cases = tuple(c for c in self.cases if text in c.name.casefold())
        return Suite(folder=self.folder, cases=cases)


def collect(sources: Sequence[Source]) -> Suite:
    """Read the files of a folder; raises as :func:`~ctsql.planner.folder.read_folder` does."""
    readable: list[Source] = []
    broken_cases: list[Case] = []
    for source in sources:
        text = source.text
        for span in split(source):
            case = _broken(span)
            if case is not None:
                broken_cases.append(case)
                text = _blanked(text, span)
        readable.append(Source(text, source.name))
    folder = read_folder(readable, also=(st.Test,))
    originals = {source.name: source for source in sources}
    cases = [
        Case(
            name=other.statement.name,
            span=other.statement.span,
            schema=other.schema,
            test=other.statement,
        )
        for other in folder.others
        if isinstance(other.statement, st.Test)
    ]
    order = {name: number for number, name in enumerate(originals)}
    cases = sorted([*cases, *broken_cases], key=lambda c: (order[c.span.source.name], c.span.start))
    return Suite(folder=folder, cases=tuple(cases))


def _broken(span: Span) -> Case | None:
    """The failing test for an unreadable TEST; None for any other statement."""
    if span.text[:4].upper() != "TEST" or span.text[4:5].isalnum():
        return None
    try:
        parse(span)
    except CtsqlError as problem:
        tokens = tokenise(span)
        named = len(tokens) > 1 and tokens[1].kind is Kind.STRING
        name = tokens[1].text if named else f"line {span.line}"
        return Case(name=name, span=span, schema=DEFAULT_SCHEMA, problem=problem)
    return None


def _blanked(text: str, span: Span) -> str:
    """A text with blanks in place of a statement, so that other places are unchanged."""
    blank = "".join(c if c == "\n" else " " for c in span.text)
    return text[: span.start] + blank + text[span.stop :]
