"""Spark's types as text that Spark reads again."""

from pyspark.sql import types as T

from ctsql.catalog.names import quote


def type_name(kind: T.DataType) -> str:
    """A type in Spark's spelling; names of fields are in backticks where they have to be.

    >>> type_name(T.StructType().add("a.b", T.ArrayType(T.StructType().add("c", T.IntegerType()))))
    'struct<`a.b`:array<struct<c:int>>>'
    """
    match kind:
        case T.StructType():
            fields = (f"{quote(f.name)}:{type_name(f.dataType)}" for f in kind.fields)
            return f"struct<{','.join(fields)}>"
        case T.ArrayType():
            return f"array<{type_name(kind.elementType)}>"
        case T.MapType():
            return f"map<{type_name(kind.keyType)},{type_name(kind.valueType)}>"
    return kind.simpleString()
