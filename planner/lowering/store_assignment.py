"""Values as an output's columns store them."""

from pyspark.sql import Column as SparkColumn, functions as F, types as T

from ctsql.catalog.schemas import Column, plain_type
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import rewrite_text
from ctsql.planner.lowering.spark_types import metadata_of, type_name
from ctsql.planner.nodes import Query

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double", "decimal")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_PLAIN = (*_NUMBERS, *_TIMES, "boolean", "binary")


_SPELLINGS = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float",
    "dec": "decimal", "numeric": "decimal", "timestamp_ltz": "timestamp",
}  # fmt: skip


def spelled(type_: str) -> str:
    """A type as Spark spells it: columns keep theirs as it was typed. Texts of a size are texts.

    >>> spelled("NUMERIC(12, 2)"), spelled("Integer"), spelled("VARCHAR(3)"), spelled("decimal")
    ('decimal(12,2)', 'int', 'string', 'decimal(10,0)')
    """
    plain = plain_type(type_)
    if "<" in plain:
        return type_name(T.DataType.fromDDL(plain))
    word, _, size = plain.lower().replace(" ", "").partition("(")
    word = _SPELLINGS.get(word, word)
    if word == "decimal" and "," not in size:
        size = f"{size.rstrip(')') or 10},0)"
    return f"{word}({size}" if size else word


def _head(type_: str) -> str:
    return type_.split("(")[0].split("<")[0]


def may_store(value_type: str, column_type: str) -> bool:
    """Whether a value of a type is stored in a column without a CAST, as by Spark's INSERT.

    Nested types are not checked.

    >>> may_store("double", "int"), may_store("int", "string"), may_store("string", "int")
    (True, True, False)
    """
    source, target = _head(spelled(value_type)), _head(spelled(column_type))
    if source == target or target == "string":
        return True
    if target in _PLAIN and (source in _PLAIN or source == "string"):
        return any(source in kinds and target in kinds for kinds in (_NUMBERS, _TIMES))
    return True


def is_exact(value_type: str, column_type: str) -> bool:
    """Whether a cast from a type to another one keeps every value, or fails.

    >>> is_exact("bigint", "int"), is_exact("double", "bigint"), is_exact("string", "varchar(3)")
    (True, False, True)
    >>> is_exact("double", "DOUBLE"), is_exact("timestamp", "Timestamp"), is_exact("int", "INTEGER")
    (True, True, True)
    >>> is_exact("decimal(12,2)", "decimal(10,2)"), is_exact("decimal(12,4)", "decimal(10,2)")
    (True, False)
    """
    value_type, column_type = spelled(value_type), spelled(column_type)
    source, target = _head(value_type), _head(column_type)
    if source == target == "decimal":
        return _places(value_type) <= _places(column_type)
    if source in _WHOLE and target in _WHOLE:
        return True
    return value_type == column_type or source == target == "string"


def _places(decimal: str) -> int:
    return int(decimal.rstrip(")").split(",")[1])


def as_stored(value: SparkColumn, column: Column, value_type: str = "") -> SparkColumn:
    """A value as a column of an output stores it; one that does not fit is an error on the row.

    ``value_type``, if known: a user's CAST to the column's type gets no second CAST, which would
    hide the place of Spark's error.
    """
    plain = plain_type(column.type)
    stored_value = (
        value if "<" not in value_type and value_type == spelled(plain) else value.cast(plain)
    )
    if plain != column.type:
        stored_value = _fit(stored_value, T.DataType.fromDDL(column.type), column)
    return stored_value.alias(column.name, metadata=metadata_of(column.type))


def _fit(value: SparkColumn, kind: T.DataType, column: Column) -> SparkColumn:
    """Texts within a value, checked and padded by the type."""
    match kind:
        case T.CharType() | T.VarcharType():
            message = F.lit(
                f'a value is longer than {kind.simpleString()} of column "{column.name}"'
            )
            too_long = F.length(value) > kind.length
            text = F.when(too_long, F.raise_error(message).cast("string")).otherwise(value)
            is_padded = isinstance(kind, T.CharType)
            return F.rpad(text, kind.length, " ") if is_padded else text
        case T.ArrayType():
            return F.transform(value, lambda item: _fit(item, kind.elementType, column))
        case T.MapType():
            keys = F.transform_keys(value, lambda key, _: _fit(key, kind.keyType, column))
            return F.transform_values(keys, lambda _, item: _fit(item, kind.valueType, column))
        case T.StructType():
            parts = [
                _fit(value.getField(f.name), f.dataType, column).alias(f.name) for f in kind.fields
            ]
            return F.when(value.isNotNull(), F.struct(*parts))
        case _:
            return value


def value_text(value: Query, context: Context) -> str:
    """A value that reads no relation, as Spark is given it."""
    return rewrite_text(value.sql, {}, context).text
