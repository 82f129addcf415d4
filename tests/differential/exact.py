"""Rows as texts that are equal exactly when the rows are, made by Spark.

NaN equals NaN and 0.0 differs from -0.0, at any depth; maps are equal whatever the order of their
entries; a VARIANT is its text with its type. Where a query's result depends on the order of rows
(MAX of 0.0 and -0.0, AVG of integers over 2^53), the zeros are taken as one, and ten digits count.
"""

from pyspark.sql import types as T

NULL = "'~'"


def exact(value: str, kind: T.DataType, *, zeros: bool = False, depth: int = 0) -> str:
    """The text of a value, as an SQL expression.

    Args:
        zeros: take -0.0 for 0.0, and look at ten digits.
    """
    one = f"x{depth}"

    def inner(item: str, of: T.DataType) -> str:
        return exact(item, of, zeros=zeros, depth=depth + 1)

    match kind:
        case T.FloatType() | T.DoubleType():
            text = f"CAST({value} AS STRING)"
            if zeros:
                digits = f"format_string('%.9e', CAST({value} AS DOUBLE))"
                text = f"CASE WHEN {value} = 0 THEN '0' WHEN {value} IS NOT NULL THEN {digits} END"
        case T.StringType() | T.CharType() | T.VarcharType():
            text = f"concat('s', length({value}), ':', {value})"
        case T.BinaryType():
            text = f"concat('b', hex({value}))"
        case T.VariantType():
            text = f"concat(schema_of_variant({value}), to_json({value}))"
        case T.ArrayType():
            items = f"transform({value}, {one} -> {inner(one, kind.elementType)})"
            text = f"concat('[', array_join({items}, ','), ']')"
        case T.MapType():
            key, item = inner(f"{one}.key", kind.keyType), inner(f"{one}.value", kind.valueType)
            items = f"transform(map_entries({value}), {one} -> concat({key}, '=', {item}))"
            text = f"concat('<', array_join(array_sort({items}), ','), '>')"
        case T.StructType():
            parts = ", ',', ".join(inner(f"{value}.`{f.name}`", f.dataType) for f in kind.fields)
            text = f"CASE WHEN {value} IS NOT NULL THEN concat('(', {parts}, ')') END"
        case _:
            text = f"CAST({value} AS STRING)"
    return f"coalesce({text}, {NULL})"


def row(schema: T.StructType, *, zeros: bool = False) -> str:
    """The text of a row, as an SQL expression over its columns."""
    parts = [exact(f"`{f.name}`", f.dataType, zeros=zeros) for f in schema.fields]
    return f"concat_ws('|', {', '.join(parts)})"
