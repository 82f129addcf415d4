"""Pieces of the user's text: the place of a statement, a name or an error.

A span points into the whole text the user gave, a script or a line typed in the REPL. So an error
can show the file, the line and a caret, even inside a body.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A text and its name in messages: a file's path, or for example ``<stdin>``."""

    text: str
    name: str = "<statement>"

    def whole(self) -> "Span":
        """The span of the whole text."""
        return Span(self, 0, len(self.text))

    def at(self, place: int) -> "Span":
        """The empty span at a place."""
        return Span(self, place, place)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start`` (inclusive) to ``stop`` (exclusive) of a source, counted from 0."""

    source: Source
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop <= len(self.source.text):
            raise ValueError(f"span [{self.start}, {self.stop}) is outside the text")

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source.text[self.start : self.stop]

    @property
    def line(self) -> int:
        """The line of the first character, counted from 1."""
        return self.source.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """The column of the first character, counted from 1."""
        return self.start - (self.source.text.rfind("\n", 0, self.start) + 1) + 1

    @property
    def front(self) -> "Span":
        """The empty span in front of it."""
        return self.source.at(self.start)

    @property
    def behind(self) -> "Span":
        """The empty span after it."""
        return self.source.at(self.stop)

    def part(self, start: int, stop: int) -> "Span":
        """A piece of this span; ``start`` and ``stop`` count from this span's own start."""
        return Span(self.source, self.start + start, min(self.start + stop, len(self.source.text)))

    def place(self) -> str:
        """``file:line:column``, as compilers print it."""
        return f"{self.source.name}:{self.line}:{self.column}"
