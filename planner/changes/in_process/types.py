"""Spark's types of values, as far as DuckDB has the same values, and Spark's rules for them.

Source of the rules: Spark 4.2's DecimalPrecisionTypeCoercion, DecimalType and AnsiTypeCoercion.
Where a rule makes Spark round, there is no type here: the caller leaves the query to Spark.
"""

import re
from dataclasses import dataclass

DIGITS_MAX = 38
_PLACES_KEPT = 6  # Spark keeps so many decimal places when a result has too many digits

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_NAMES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""By type, the digits that hold all its values."""
_ORDER = tuple(INTEGERS)


class OnlySpark(Exception):
    """What is asked means something else to DuckDB, or may."""


class NotHeld(OnlySpark):
    """Rows are wanted that this process does not hold."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of values.

    Attributes:
        name: Spark's simple name; ``"null"`` of a NULL that has no other type yet.
        digits, places: of decimals.
    """

    name: str
    digits: int = 0
    places: int = 0

    @property
    def spark(self) -> str:
        """As Spark spells it."""
        return f"decimal({self.digits},{self.places})" if self.is_decimal else self.name

    @property
    def sql(self) -> str:
        """As DuckDB spells it."""
        if self.is_decimal:
            return f"DECIMAL({self.digits},{self.places})"
        return "INTEGER" if self == NULL else _NAMES[self.name]

    @property
    def is_decimal(self) -> bool:
        """Is it a decimal?"""
        return self.name == "decimal"

    @property
    def is_integer(self) -> bool:
        """Is it a whole number?"""
        return self.name in INTEGERS

    @property
    def is_comparable(self) -> bool:
        """Are values equal, and in order, for both alike? Not fractions: 0.0 and -0.0, NaN."""
        return self.name not in ("float", "double", "null")


NULL = Type("null")
BOOLEAN, INT, BIGINT = Type("boolean"), Type("int"), Type("bigint")
DOUBLE, STRING, DATE = Type("double"), Type("string"), Type("date")


def type_of(spelling: str) -> Type:
    """A type by Spark's spelling.

    Raises:
        OnlySpark: it is not one of those here.

    >>> type_of("decimal(15,2)")
    Type(name='decimal', digits=15, places=2)
    """
    found = _DECIMAL.fullmatch(spelling)
    if found is not None:
        return Type("decimal", int(found[1]), int(found[2]))
    if spelling not in _NAMES:
        raise OnlySpark(f"type {spelling}")
    return Type(spelling)


def decimal(digits: int, places: int) -> Type:
    """The type of a result that needs so many digits, where Spark does not round it.

    Raises:
        OnlySpark: Spark rounds it.

    >>> decimal(42, 4).spark
    'decimal(38,4)'
    """
    found = adjusted(digits, places)
    if found.places != places:
        raise OnlySpark(f"decimal({digits},{places}) is rounded")
    return found


def adjusted(digits: int, places: int) -> Type:
    """The type that Spark gives a result that needs so many digits: whole ones go first.

    >>> adjusted(46, 23).spark
    'decimal(38,15)'
    """
    if digits <= DIGITS_MAX:
        return Type("decimal", digits, places)
    whole = digits - places
    return Type("decimal", DIGITS_MAX, max(DIGITS_MAX - whole, min(places, _PLACES_KEPT)))


def as_decimal(kind: Type) -> Type:
    """A number's type as a decimal; raises OnlySpark for others."""
    if kind.is_integer:
        return Type("decimal", INTEGERS[kind.name], 0)
    if not kind.is_decimal:
        raise OnlySpark(f"{kind.spark} as a decimal")
    return kind


def common(kinds: list[Type]) -> Type:
    """The type that values of several types are brought to, as in CASE, IN and UNION ALL.

    Raises:
        OnlySpark: they have none here.

    >>> common([INT, NULL, Type("decimal", 4, 2)]).spark
    'decimal(12,2)'
    """
    found = NULL
    for kind in kinds:
        found = _wider(found, kind)
    return found


def _wider(one: Type, two: Type) -> Type:
    if one == two or two == NULL:
        return one
    if one == NULL:
        return two
    if one.is_integer and two.is_integer:
        return max(one, two, key=lambda t: _ORDER.index(t.name))
    a, b = as_decimal(one), as_decimal(two)
    places = max(a.places, b.places)
    digits = max(a.digits - a.places, b.digits - b.places) + places
    if digits > DIGITS_MAX:
        raise OnlySpark("a common type would be rounded")
    return Type("decimal", digits, places)
