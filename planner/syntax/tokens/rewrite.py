"""Replaces pieces of the user's text, and records the origin of each piece.

Text that Spark runs is never printed from a tree: everything else stays as typed, comments
included, and a position in Spark's error message is mapped to the user's text.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.errors import error
from ctsql.catalog.names import backtick
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import Edit, RelationRef, SqlText


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the new text: copied from the source, or a replacement of a piece of it."""

    new_start: int
    old_start: int
    copied: bool


@dataclass(frozen=True, slots=True)
class RewrittenText:
    """New text, the span of its source text, and the mapping back to it."""

    text: str
    span: Span
    _pieces: tuple[_Piece, ...]

    def origin(self, offset: int) -> int:
        """The offset in the source of a character of the new text; of a replacement its begin."""
        if offset >= len(self.text):
            return self.span.stop
        if offset < 0:
            return self.span.start
        index = bisect_right(self._pieces, offset, key=lambda p: p.new_start) - 1
        piece = self._pieces[index]
        return piece.old_start + (offset - piece.new_start if piece.copied else 0)


def splice(span: Span, edits: Iterable[Edit]) -> RewrittenText:
    """Replace pieces of a span; an edit of an empty span inserts.

    Edits may have any order; those at the same place are done in the order given, equal ones once.
    Raises ValueError if two edits overlap, or one leaves the span.
    """
    pieces: list[_Piece] = []
    parts: list[str] = []
    position, length = span.start, 0

    def add(text: str, old_start: int, *, copied: bool) -> None:
        nonlocal length
        if text:
            parts.append(text)
            pieces.append(_Piece(length, old_start, copied))
            length += len(text)

    for edit in sorted(dict.fromkeys(edits), key=lambda e: (e.span.start, e.span.stop)):
        if edit.span.start < position or edit.span.stop > span.stop:
            raise ValueError(f"an edit at {edit.span.place()} overlaps another or leaves the text")
        add(span.source.text[position : edit.span.start], position, copied=True)
        add(edit.text, edit.span.start, copied=False)
        position = edit.span.stop
    add(span.source.text[position : span.stop], position, copied=True)
    return RewrittenText("".join(parts), span, tuple(pieces))


def concatenate(parts: Sequence[str | RewrittenText]) -> RewrittenText:
    """Rewritten texts with texts of ctsql between them, whose origin is the next one's begin.

    There is one rewritten text at least.
    """
    spans = [p.span for p in parts if isinstance(p, RewrittenText)]
    pieces: list[_Piece] = []
    text = ""
    for index, part in enumerate(parts):
        if isinstance(part, RewrittenText):
            pieces += [replace(p, new_start=p.new_start + len(text)) for p in part._pieces]
            text += part.text
        else:
            behind = (p.origin(0) for p in parts[index:] if isinstance(p, RewrittenText))
            pieces.append(_Piece(len(text), next(behind, spans[-1].stop), copied=False))
            text += part
    whole = Span(spans[0].source, min(s.start for s in spans), max(s.stop for s in spans))
    return RewrittenText(text, whole, tuple(pieces))


def rewrite(
    text: SqlText,
    *,
    relation: Callable[[RelationRef], str],
    at: int | str | None = None,
    parameters: Sequence[str] = (),
) -> RewrittenText:
    """The text that Spark runs for a piece of SQL.

    Args:
        relation: the bare name in place of a relation. Without an alias the relation's own name is
            added as one, so that columns qualified with it resolve.
        at: the T that calls of the clock return, or the column that holds it; None leaves them.
        parameters: SQL literals in place of ``?`` and ``:name``, in order.

    Raises:
        PARAMETER_MISMATCH: not one literal for each.
    """
    if len(parameters) != len(text.parameters):
        raise error(
            "PARAMETER_MISMATCH",
            span=text.parameters[0] if text.parameters else text.span,
            wanted=len(text.parameters),
            given=len(parameters),
        )
    edits = list(text.edits)
    for ref in text.relations:
        alias = "" if ref.aliased else f" AS {backtick(ref.shown_name)}"
        if ref.alias_place is not None:
            edits.append(Edit(span=ref.alias_place, text=alias))
            alias = ""
        edits.append(Edit(span=ref.span, text=relation(ref) + alias))
    if at is not None:
        edits.extend(Edit(span=call.span, text=call.kind.sql(at)) for call in text.clocks)
    edits.extend(
        Edit(span=place, text=literal)
        for place, literal in zip(text.parameters, parameters, strict=True)
    )
    return splice(text.span, edits)
