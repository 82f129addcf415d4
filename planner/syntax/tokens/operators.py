"""Reads how the operators of an expression bind, by Spark's grammar and no other.

sqlglot's operators bind differently: to Spark ``a = b BETWEEN c AND d`` asks whether ``a = b`` is
between, and ``a = b > c`` compares from left to right. A text that Spark may read in another way (a
keyword as a name, an unknown form) raises :class:`UncertainText`; nothing is guessed.

An expression is a sequence of *pieces*: tokens as typed, and other values, each for
one operand (a resolved column, a subquery with its parentheses).

Source: the rules ``booleanExpression``, ``predicate``, ``valueExpression``, ``primaryExpression``
of Spark 4.2's SqlBaseParser.g4; tests/spark/planner/test_operators.py compares with Spark's parser.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ctsql.planner.syntax.tokens.operands import (
    NUMBER,
    STRING,
    PieceReader,
    UncertainText as UncertainText,
    is_word,
)

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
        """It without the parentheses around it."""
        return self.inside[0].bare if self.kind == GROUP else self

    def descend(self) -> Iterator["Shape"]:
        """It and all inside it."""
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
        """A sign in front of a number is a part of the number, so it binds tighter than ``::``."""
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
        """An operand without the suffixes behind it."""
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
        """Read an operand of so many pieces."""
        self.at += count
        return Shape("", self.at - count, self.at)

    def function(self, count: int) -> Shape:
        """Read a lambda function, whose body begins after so many pieces."""
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
        """Read what is in parentheses, at least one item; None for a query."""
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
        """Read what is in parentheses, split at commas."""
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
