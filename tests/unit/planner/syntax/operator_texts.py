"""Expressions of every operator of Spark SQL, one, two or three in a row, without parentheses."""

import itertools
from collections.abc import Iterator, Sequence

from ctsql.planner.syntax.tokens.operators import GROUP, Shape, read

INFIX = (
    "=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "!<", "!>", "AND", "OR", "||", "+", "-",
    "*", "/", "%", "DIV", "&", "|", "^", "<<", ">>", ">>>", "LIKE", "NOT LIKE", "ILIKE", "RLIKE",
    "NOT REGEXP", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "BETWEEN", "BETWEEN l AND",
    "NOT BETWEEN l AND", "->", "LIKE p ESCAPE",
)  # fmt: skip
POSTFIX = (
    "IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE", "IS UNKNOWN", "IN ( p , q OR r )",
    "NOT IN ( p )", "IN ( SELECT 1 )", "IN ( ( SELECT 1 ) )", "LIKE ANY ( 'p' , 'q' )",
    "NOT LIKE ALL ( 'p' )", "ILIKE SOME ( 'p' )", "ESCAPE '/'", ":: int",
    ":: ARRAY < MAP < INT , INT >>", ":: DECIMAL ( 10 , 2 )", "COLLATE utf8_lcase", "[ p + q ]",
    ". f", ": f", "IN p", "NOT", "'x'", ". f ( p )", "END", "OVER w",
)  # fmt: skip
PREFIX = ("NOT", "!", "-", "+", "~", "INTERVAL", "CASE", "EXISTS")
OPERANDS = (
    "a", "5", "`o`", "1.5e3", ".5", "'t'", "DATE '2020-02-02'", "INTERVAL 1 DAY", "NULL", "TRUE",
    "INTERVAL '1-2' YEAR TO MONTH", "f ( p , q OR r )", "f ( p ) . g", "( p , q )", "( p AND q )",
    "( SELECT 1 )", "EXISTS ( SELECT 1 )", "CASE p WHEN q THEN r ELSE s END", "t . u . v",
    "CASE WHEN p OR q THEN r = s END", "CAST ( p = q AS STRING )", "CAST ( p AS ARRAY < INT > )",
    "count ( DISTINCT p , q )", "sum ( p ) FILTER ( WHERE q OR r )", "first ( p ) IGNORE NULLS",
    "sum ( p ) OVER ( PARTITION BY q )", "extract ( YEAR FROM p )", "substring ( p FROM 1 FOR 2 )",
    "trim ( BOTH 'x' FROM p )", "position ( p IN q )", "overlay ( p PLACING q FROM 1 )",
    "exists ( p , x -> x > 1 )", "struct ( p AS q , r )", "( p AS q , r )", "current_date", "1L",
    "f ( p => q OR r )", "-5", "{hole}", "timestampadd ( DAY , 1 , p )", "X '1F'", "'t' 'u'",
    "( x , y ) -> x OR y", "transform ( p , x -> x + 1 )", "date ( p )", "count ( * )", "1a",
)  # fmt: skip
# One of each kind that Spark's grammar tells apart.
KINDS = (
    "=", "!>", "AND", "OR", "+", "*", "&", "|", "^", ">>", "LIKE", "RLIKE", "IS DISTINCT FROM",
    "BETWEEN", "BETWEEN l AND", "->", "IS NULL", "IS NOT TRUE", "IN ( p , q OR r )",
    "IN ( SELECT 1 )", "LIKE ANY ( 'p' , 'q' )", "ESCAPE '/'", ":: int", "COLLATE utf8_lcase",
    "[ p + q ]", ". f", "NOT", "-", "~", ": f",
)  # fmt: skip
_NAMES = "abcdefgh"


def texts(operators: Sequence[str], operand: str | None = None) -> Iterator[str]:
    """The texts in which some operators stand one behind the other, in every way they can.

    Args:
        operand: what stands in place of one of the operands, each in turn; names if None.
    """
    choices = [tuple(_ways(operator)) for operator in operators]
    for ways in itertools.product(*choices):
        made = _text(operators, ways)
        if made is None:
            continue
        holes = [i for i, piece in enumerate(made) if piece == ""]
        for special in [None] if operand is None else range(len(holes)):
            names = iter(_NAMES)
            filled = list(made)
            for number, hole in enumerate(holes):
                filled[hole] = operand if number == special and operand else next(names)
            yield " ".join(filled)


def _ways(operator: str) -> Iterator[str]:
    is_infix = operator in INFIX or operator.endswith(" AND")
    if operator in PREFIX:
        yield "pre"
    if is_infix:
        yield "in"
    if operator in POSTFIX or not (is_infix or operator in PREFIX):
        yield "post"


def _text(operators: Sequence[str], ways: Sequence[str]) -> list[str] | None:
    pieces: list[str] = []
    wants_operand = True
    for operator, way in zip(operators, ways, strict=True):
        if way == "pre":
            if not wants_operand:
                return None
            pieces.append(operator)
            continue
        if wants_operand:
            pieces.append("")
        pieces.append(operator)
        wants_operand = way == "in"
    return [*pieces, *([""] if wants_operand else [])]


def in_a_row(count: int, operators: Sequence[str] = (*INFIX, *POSTFIX, *PREFIX)) -> list[str]:
    """Every text of so many operators in a row."""
    rows = itertools.product(dict.fromkeys(operators), repeat=count)
    return list(dict.fromkeys(t for row in rows for t in texts(row)))


def around_operands() -> list[str]:
    """Every operator with every kind of operand on each of its sides."""
    found = (
        text
        for operator in (*INFIX, *POSTFIX, *PREFIX)
        for operand in OPERANDS
        for text in texts([operator], operand)
    )
    return list(dict.fromkeys(found))


def operations(pieces: Sequence[object]) -> list[Shape]:
    """The operations in an expression, all that needs parentheses where it becomes an operand."""
    return [shape for shape in read(pieces).descend() if shape.kind not in ("", GROUP)]


def parenthesised(pieces: Sequence[str]) -> list[str]:
    """The same expression with every operation in parentheses.

    Raises:
        Unreadable: as for :func:`ctsql.planner.syntax.tokens.operators.read`.
    """
    shapes = operations(pieces)
    made: list[str] = []
    for index, piece in enumerate(pieces):
        made += ["("] * sum(s.start == index for s in shapes)
        made.append(piece)
        made += [")"] * sum(s.stop == index + 1 for s in shapes)
    return made
