"""Reads the precedence of operators in an expression, by Spark's grammar only.

sqlglot's precedence differs: for Spark ``a = b BETWEEN c AND d`` means ``(a = b) BETWEEN ...``, and
``a = b > c`` compares from left to right. A text that Spark may read differently (a keyword as a
name, an unknown form) raises :class:`UncertainText`. An expression is a sequence of *pieces*:
tokens as typed, and one value for each resolved column or subquery.

Source: the rules ``booleanExpression``, ``predicate``, ``valueExpression``, ``primaryExpression``
of Spark 4.2's SqlBaseParser.g4; tests/spark/planner/test_operators.py compares with Spark's parser.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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
    """A text that Spark may read differently."""


class PieceReader:
    """Reads pieces from left to right; ``at`` is the next one."""

    def __init__(self, pieces: Sequence[object]) -> None:
        self.pieces = pieces
        self.at = 0

    def text(self, ahead: int = 0) -> str:
        """The piece as typed; empty for an operand that is no text, and at the end."""
        place = self.at + ahead
        piece = self.pieces[place] if place < len(self.pieces) else ""
        return piece if isinstance(piece, str) else ""

    def word(self, ahead: int = 0) -> str:
        """The piece in upper case."""
        return self.text(ahead).upper()

    def accept(self, *words: str) -> bool:
        """Read some words if they come next."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def expect(self, word: str) -> None:
        """Read a word that must come next."""
        if not self.accept(word):
            raise self.unreadable()

    def unreadable(self) -> UncertainText:
        """The exception for a piece that no rule accepts."""
        return UncertainText(f"at {self.text()!r}")

    def is_name(self, ahead: int = 0) -> bool:
        """Whether it is a name in any context."""
        text = self.text(ahead)
        return text[:1] == "`" or (is_word(text) and text.upper() not in _NO_NAMES)

    def is_operand(self) -> bool:
        """Whether it is an operand that is no text."""
        return self.at < len(self.pieces) and not isinstance(self.pieces[self.at], str)

    def query_follows(self) -> bool:
        """Whether a query begins after the parentheses that open here."""
        ahead = 0
        while self.text(ahead) == "(":
            ahead += 1
        return bool(ahead) and self.word(ahead) in _QUERY_WORDS

    def skip(self) -> None:
        """Skip the parenthesis or bracket that comes next, with its contents."""
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
        """Skip a type."""
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


AND, OR = "AND", "OR"
GROUP = "("  # the kind of an expression in parentheses

_LEVELS: tuple[frozenset[str], ...] = (
    frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", "!<", "!>"}),
    frozenset({"|"}),
    frozenset({"^"}),
    frozenset({"&"}),
    frozenset({"<<", ">>", ">>>"}),
    frozenset({"+", "-", "||"}),
    frozenset({"*", "/", "%", "DIV"}),
)
"""The operators of values, those that bind loosest first; each level goes from left to right."""

_PREFIXES = ("-", "+", "~")
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "INTERVAL", "X", "TIME")
_FUNCTIONS_TOO = ("LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "IF", "LEFT", "RIGHT", "FILTER")


@dataclass(frozen=True, slots=True)
class Shape:
    """An operand or an operation (its operator is ``kind``), and its pieces ``start`` to ``stop``.

    ``inside`` are its operands, or the expressions inside an operand. ``kind`` is ``"("`` for an
    expression in parentheses, else empty. A chain of AND, or of OR, is one operation.
    """

    kind: str
    start: int
    stop: int
    inside: tuple["Shape", ...] = ()

    @property
    def bare(self) -> "Shape":
        """The shape without its outer parentheses."""
        return self.inside[0].bare if self.kind == GROUP else self

    def descend(self) -> Iterator["Shape"]:
        """The shape and all shapes inside it."""
        yield self
        for shape in self.inside:
            yield from shape.descend()


def read(pieces: Sequence[object]) -> Shape:
    """The shape of a whole expression; UncertainText: Spark may read it in another way.

    >>> shape = read("a = b BETWEEN c AND d".split())
    >>> shape.kind, shape.inside[0].kind
    ('BETWEEN', '=')
    """
    reader = _Reader(pieces)
    try:
        shape = reader.expression()
    except RecursionError as cause:
        raise UncertainText("nested too deeply") from cause
    if reader.at != len(reader.pieces):
        raise reader.unreadable()
    return shape


class _Reader(PieceReader):
    # ---- conditions

    def expression(self) -> Shape:
        return self.chain(OR, lambda: self.chain(AND, self.negation))

    def chain(self, word: str, operand: Callable[[], Shape]) -> Shape:
        start = self.at
        operands = [operand()]
        while self.accept(word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Shape(word, start, self.at, tuple(operands))

    def negation(self) -> Shape:
        start = self.at
        if self.accept("NOT") or self.accept("!"):
            inner = self.negation()
            return Shape("NOT", start, self.at, (inner,))
        if self.word() == "EXISTS":
            self.at += 1
            if self.query_follows():
                self.skip()
                return Shape("", start, self.at)
            if self.is_operand():
                self.at += 1
                return Shape("", start, self.at)
            self.at = start
        return self.predicate()

    def predicate(self) -> Shape:
        start = self.at
        left = self.value()
        begin = self.at
        if self.accept("IS"):
            return self.after_is(start, left)
        self.accept("NOT")
        word = self.word()
        if word not in ("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP"):
            if self.at != begin:
                raise self.unreadable()
            return left
        self.at += 1
        operands = [left]
        match word:
            case "BETWEEN":
                operands.append(self.value())
                self.expect(AND)
                operands.append(self.value())
            case "IN":
                operands += self.in_list()
            case "LIKE" | "ILIKE" if self.word() in ("ANY", "SOME", "ALL") and self.text(1) == "(":
                self.at += 1
                operands += self.in_list()
            case _:
                operands.append(self.value())
                if word in ("LIKE", "ILIKE") and self.accept("ESCAPE"):
                    if not STRING.match(self.text()):
                        raise self.unreadable()
                    self.at += 1
        return Shape(word, start, self.at, tuple(operands))

    def after_is(self, start: int, left: Shape) -> Shape:
        self.accept("NOT")
        if self.accept("DISTINCT", "FROM"):
            right = self.value()
            return Shape("IS", start, self.at, (left, right))
        if self.word() not in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
            raise self.unreadable()
        self.at += 1
        return Shape("IS", start, self.at, (left,))

    def in_list(self) -> list[Shape]:
        """``(a, b)``, or a query in parentheses."""
        if self.is_operand():
            self.at += 1
            return []
        if self.text() != "(":
            raise self.unreadable()
        inside = self.try_items(self.expression)
        return inside if inside is not None else []

    # ---- values

    def value(self, level: int = 0) -> Shape:
        start = self.at
        if level == len(_LEVELS):
            return self.unary()
        left = self.value(level + 1)
        while self.word() in _LEVELS[level]:
            operator = self.word()
            self.at += 1
            right = self.value(level + 1)
            left = Shape(operator, start, self.at, (left, right))
        return left

    def unary(self) -> Shape:
        """A sign in front of a number belongs to the number, so it binds tighter than ``::``."""
        start = self.at
        if self.text() not in _PREFIXES or (self.text() == "-" and NUMBER.fullmatch(self.text(1))):
            return self.primary()
        operator = self.text()
        self.at += 1
        inner = self.unary()
        return Shape(operator, start, self.at, (inner,))

    def primary(self) -> Shape:
        start = self.at
        operand = self.base()
        while True:
            if self.text() == "." and (self.is_name(1) or is_word(self.text(1))):
                self.at += 2
                inside: tuple[Shape, ...] = (operand,)
            elif self.text() == "[":
                self.at += 1
                index = self.value()
                self.expect("]")
                inside = (operand, index)
            elif self.accept("::"):
                self.type()
                inside = (operand,)
            elif self.word() == "COLLATE" and self.is_name(1):
                self.at += 2
                while self.text() == "." and self.is_name(1):
                    self.at += 2
                if self.text() == "-" and self.is_name(1):  # Spark takes it for a bad name
                    raise self.unreadable()
                inside = (operand,)
            elif self.text() == ":" and self.path_follows(operand):
                self.at += 1
                self.at += self.is_name()
                inside = (operand,)
            else:
                return operand
            operand = Shape("", start, self.at, inside)

    def path_follows(self, operand: Shape) -> bool:
        """Whether ``:`` extracts from an operand; from a literal text it does not."""
        piece = self.pieces[operand.start]
        is_text = not operand.inside and isinstance(piece, str) and STRING.match(piece)
        return not is_text and (self.is_name(1) or self.text(1) == "[")

    def base(self) -> Shape:
        """An operand without the suffixes after it."""
        start, text, word = self.at, self.text(), self.word()
        if self.is_operand() or text in ("*", "?"):
            return self.leaf(1)
        if text == "(":
            return self.parenthesis()
        if text == "-" or NUMBER.fullmatch(text):
            return self.leaf(2 if text == "-" else 1)
        if STRING.match(text):
            while STRING.match(self.text()):
                self.at += 1
            return Shape("", start, self.at)
        if word in _TYPED and text and STRING.match(self.text(1)) and self.interval_stop() is None:
            return self.leaf(2)
        if word == "CASE" and self.text(1) not in (".", ",", ")"):
            return self.case()
        if word == "INTERVAL" and (stop := self.interval_stop()) is not None:
            return self.leaf(stop - start)
        if self.text(1) == "->" and self.is_name():
            return self.function(2)
        if self.text(1) == "(" and (self.is_name() or word in _FUNCTIONS_TOO):
            return self.call()
        if not self.is_name():
            raise self.unreadable()
        self.at += 1
        return self.name(start)

    def leaf(self, count: int) -> Shape:
        """Read an operand of ``count`` pieces."""
        self.at += count
        return Shape("", self.at - count, self.at)

    def function(self, count: int) -> Shape:
        """Read a lambda function, whose body begins after ``count`` pieces."""
        start = self.at
        self.at += count
        body = self.expression()
        return Shape("->", start, self.at, (body,))

    def name(self, start: int) -> Shape:
        """A name; ``s.f(...)`` is a call of a function in a schema, ``t.*`` all of a relation."""
        ahead = 0
        while self.text(ahead) == "." and self.is_name(ahead + 1):
            ahead += 2
        if self.text(ahead) == "." and self.text(ahead + 1) == "*":
            self.at += ahead + 2
        elif ahead and self.text(ahead) == "(":
            self.at += ahead - 1
            call = self.call()
            return Shape("", start, call.stop, call.inside)
        return Shape("", start, self.at)

    def parenthesis(self) -> Shape:
        start = self.at
        ahead = 1
        while self.is_name(ahead) and self.text(ahead + 1) == ",":
            ahead += 2
        if self.is_name(ahead) and self.text(ahead + 1) == ")" and self.text(ahead + 2) == "->":
            return self.function(ahead + 3)
        inside = self.try_items(self.item)
        if inside is None:
            return Shape("", start, self.at)
        if len(inside) == 1 and inside[0].stop != self.at - 1:  # one value has no alias
            raise self.unreadable()
        return Shape(GROUP if len(inside) == 1 else "", start, self.at, tuple(inside))

    def try_items(self, item: Callable[[], Shape]) -> list[Shape] | None:
        """Read the items in parentheses, at least one; None for a query."""
        start, may_be_query = self.at, self.query_follows()
        try:
            items = self.group(item)
        except UncertainText:
            if not may_be_query:
                raise
            self.at = start
            self.skip()
            return None
        if not items:
            raise self.unreadable()
        return items

    def group(self, item: Callable[[], Shape]) -> list[Shape]:
        """Read the items in parentheses, split at commas."""
        self.expect("(")
        if self.accept(")"):
            return []
        items = [item()]
        while self.accept(","):
            items.append(item())
        self.expect(")")
        return items

    def item(self) -> Shape:
        shape = self.expression()
        if self.accept("AS") or self.is_name():
            if not self.is_name():
                raise self.unreadable()
            self.at += 1
        return shape

    def case(self) -> Shape:
        start = self.at
        self.at += 1
        inside = []
        if self.word() != "WHEN":
            inside.append(self.expression())
        if self.word() != "WHEN":
            raise self.unreadable()
        while self.accept("WHEN"):
            inside.append(self.expression())
            self.expect("THEN")
            inside.append(self.expression())
        if self.accept("ELSE"):
            inside.append(self.expression())
        self.expect("END")
        return Shape("", start, self.at, tuple(inside))

    # ---- calls

    def call(self) -> Shape:
        start, word = self.at, self.word()
        self.at += 1
        special = _CALLS.get(word)
        if special is not None:  # it is no function, so neither FILTER nor OVER follows
            inside = special(self)
            return Shape("", start, self.at, tuple(inside))
        inside = self.group(self.argument)
        while True:
            if self.word() == "FILTER" and self.text(1) == "(" and self.word(2) == "WHERE":
                self.at += 3
                inside.append(self.expression())
                self.expect(")")
            elif self.word() == "WITHIN" and self.word(1) == "GROUP" and self.text(2) == "(":
                self.at += 2
                self.skip()
            elif self.word() in ("IGNORE", "RESPECT") and self.word(1) == "NULLS":
                self.at += 2
            else:
                break
        if self.word() == "OVER" and (self.text(1) == "(" or self.is_name(1)):
            self.at += 1
            if self.text() == "(":
                self.skip()
            else:
                self.at += 1
        return Shape("", start, self.at, tuple(inside))

    def argument(self) -> Shape:
        if self.word() in ("DISTINCT", "ALL"):
            self.at += 1
        if self.is_name() and self.text(1) == "=>":
            self.at += 2
        shape = self.expression()
        if self.word() in ("IGNORE", "RESPECT") and self.word(1) == "NULLS":
            self.at += 2
        return shape

    def cast(self) -> list[Shape]:
        self.expect("(")
        value = self.expression()
        self.expect("AS")
        self.type()
        self.expect(")")
        return [value]

    def values_between(self, *words: str) -> list[Shape]:
        """Values in parentheses, each with one of some words, or a comma, in front of it."""
        self.expect("(")
        values = [self.value()]
        while self.word() in words or self.text() == ",":
            self.at += 1
            values.append(self.value())
        self.expect(")")
        return values

    def extract(self) -> list[Shape]:
        if self.is_name(1) and self.word(2) == "FROM":
            self.at += 3
            value = self.value()
            self.expect(")")
            return [value]
        return self.group(self.argument)

    def trim(self) -> list[Shape]:
        if self.word(1) in ("BOTH", "LEADING", "TRAILING"):
            self.at += 2
            shapes = [] if self.word() == "FROM" else [self.value()]
            self.expect("FROM")
            shapes.append(self.value())
            self.expect(")")
            return shapes
        return self.values_between("FROM")


_CALLS: dict[str, Callable[[_Reader], list[Shape]]] = {
    "CAST": _Reader.cast,
    "TRY_CAST": _Reader.cast,
    "EXTRACT": _Reader.extract,
    "TRIM": _Reader.trim,
    "POSITION": lambda reader: reader.values_between("IN"),
    "SUBSTR": lambda reader: reader.values_between("FROM", "FOR"),
    "SUBSTRING": lambda reader: reader.values_between("FROM", "FOR"),
    "OVERLAY": lambda reader: reader.values_between("PLACING", "FROM", "FOR"),
    "STRUCT": lambda reader: reader.group(reader.item),
}
