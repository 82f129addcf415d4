"""What each type of Spark allows, by its name."""

from ctsql.catalog.schemas import decimal_size

DIGITS_ADDED = 36
"""Two decimals of at most so many digits are added without rounding, and their sum negated."""
DIGITS_SUMMED = 27
"""Decimals of at most so many digits are summed without rounding: a sum has ten digits more than
its values, and what is added and taken away one more."""
_PLACES_KEPT = 6
"""Above 38 digits Spark keeps so many places."""


def adds_exactly(data_type: str, digits_max: int) -> bool:
    """Are values of a type, if it is one of numbers, added without rounding?

    >>> [adds_exactly(t, DIGITS_ADDED) for t in ("bigint", "decimal(38,6)", "decimal(37,7)")]
    [True, True, False]
    >>> [adds_exactly(t, DIGITS_SUMMED) for t in ("decimal(28,7)", "interval day")]
    [False, False]

    Args:
        digits_max: :data:`DIGITS_ADDED` or :data:`DIGITS_SUMMED`.
    """
    size = decimal_size(data_type)
    if size is not None:
        return size[0] <= digits_max or size[1] <= _PLACES_KEPT
    return not data_type.lower().startswith("interval")
