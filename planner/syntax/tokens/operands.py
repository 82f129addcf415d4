"""Reads pieces of an expression in sequence: names, numbers, types, intervals."""

import re
from collections.abc import Sequence

from ctsql.planner.syntax.tokens.tokenizer import GENERIC_TYPES, word_set

# Words that Spark takes for names where nothing else fits; here they are none.
_NO_NAMES = word_set("""
    AND OR NOT IN IS LIKE ILIKE RLIKE REGEXP BETWEEN DIV ESCAPE COLLATE WHEN THEN ELSE AS FROM
    SELECT WITH VALUES TABLE WHERE GROUP HAVING QUALIFY WINDOW ORDER SORT CLUSTER DISTRIBUTE
    LIMIT OFFSET UNION INTERSECT EXCEPT MINUS ON USING JOIN CROSS OVER DISTINCT ALL LATERAL
""")
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE", "FROM")
_UNIT = r"(NANOSECOND|MICROSECOND|MILLISECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|YEAR)S?"
_UNIT_WORD = re.compile(_UNIT, re.IGNORECASE)
NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:E[+-]?\d+)?(?:[LSYDF]|BD)?", re.IGNORECASE)
STRING = re.compile(r"[rR]?['\"]")


class UncertainText(Exception):
    """A text that is not certain to be read as Spark reads it."""


class PieceReader:
    """Goes over pieces from left to right; ``at`` is the next one."""

    def __init__(self, pieces: Sequence[object]) -> None:
        self.pieces = pieces
        self.at = 0

    def text(self, ahead: int = 0) -> str:
        """The piece as it is typed; empty for an operand of another kind, and at the end."""
        place = self.at + ahead
        piece = self.pieces[place] if place < len(self.pieces) else ""
        return piece if isinstance(piece, str) else ""

    def word(self, ahead: int = 0) -> str:
        """The piece in upper case."""
        return self.text(ahead).upper()

    def accept(self, *words: str) -> bool:
        """Go on behind some words if they are here."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def expect(self, word: str) -> None:
        """Go on behind a word that must be here."""
        if not self.accept(word):
            raise self.unreadable()

    def unreadable(self) -> UncertainText:
        """Return the exception for a piece that nothing fits."""
        return UncertainText(f"at {self.text()!r}")

    def is_name(self, ahead: int = 0) -> bool:
        """Whether it is a name in any context."""
        text = self.text(ahead)
        return text[:1] == "`" or (is_word(text) and text.upper() not in _NO_NAMES)

    def is_operand(self) -> bool:
        """An operand that is no text."""
        return self.at < len(self.pieces) and not isinstance(self.pieces[self.at], str)

    def query_follows(self) -> bool:
        """Whether a query begins behind the parentheses that open here."""
        ahead = 0
        while self.text(ahead) == "(":
            ahead += 1
        return bool(ahead) and self.word(ahead) in _QUERY_WORDS

    def skip(self) -> None:
        """Go behind the parenthesis or bracket that closes the one here."""
        closings = {"(": ")", "[": "]"}
        open_: list[str] = []
        while True:
            if self.at >= len(self.pieces):
                raise self.unreadable()
            text = self.text()
            self.at += 1
            if text in closings:
                open_.append(closings[text])
            elif text in closings.values() and (not open_ or open_.pop() != text):
                raise self.unreadable()
            if not open_:
                return

    def interval_stop(self) -> int | None:
        """Find the end of ``INTERVAL 1 DAY 2 HOURS`` or ``INTERVAL '1-2' YEAR TO MONTH``."""
        if self.word() != "INTERVAL":
            return None
        ahead, stop = 1, None
        while True:
            behind = ahead + (self.text(ahead) in ("+", "-"))
            value = self.text(behind)
            if not (NUMBER.fullmatch(value) or STRING.match(value)):
                return stop
            if not _UNIT_WORD.fullmatch(self.text(behind + 1)):
                return stop
            ahead = behind + 2
            if self.word(ahead) == "TO" and _UNIT_WORD.fullmatch(self.text(ahead + 1)):
                ahead += 2
            stop = self.at + ahead

    def type(self) -> None:
        """Go behind a type."""
        word = self.word()
        if word == "INTERVAL" and _UNIT_WORD.fullmatch(self.text(1)):
            self.at += 4 if self.word(2) == "TO" else 2
            return
        if not self.is_name():
            raise self.unreadable()
        self.at += 1
        if word in GENERIC_TYPES:
            if self.text() == "<>":
                self.at += 1
                return
            depth = 0
            while self.text() not in ("",) and (depth or self.text()[:1] == "<"):
                text = self.text()
                depth += text.count("<") - text.count(">") if set(text) <= {"<", ">"} else 0
                self.at += 1
                if depth <= 0:
                    break
            if depth:
                raise self.unreadable()
        elif self.text() == "(":
            self.skip()
        elif word == "DOUBLE":
            self.accept("PRECISION")


def is_word(text: str) -> bool:
    """Whether it begins as a word does."""
    return text[:1].isalpha() or text[:1] == "_"
