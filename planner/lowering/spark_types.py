"""Spark's types as text, and CHAR and VARCHAR, whose comparison depends on the column's metadata.

A CHAR(n) column is a text column whose metadata holds the type. Spark pads its values to n
characters when it reads the table, and the shorter side of a comparison with another such column or
a literal. So every relation given to Spark has the metadata of the table's own relation, or its
rows would compare differently. A computed value is a plain text, and so are columns of change
plans.

Source: Spark's CharVarcharUtils and ApplyCharTypePadding.
"""

import re

from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.names import backtick, quote
from ctsql.catalog.schemas import Column, plain_type

TAG = "__CHAR_VARCHAR_TYPE_STRING"  # the metadata of a column, with its type as it was declared
_PADDED = re.compile(r"(?<!var)char\(\d+\)", re.IGNORECASE)


def declared_type(field: T.StructField) -> str:
    """The type of a column as it was declared, ``char(5)``."""
    return str(field.metadata.get(TAG) or type_name(field.dataType))


def is_padded(field: T.StructField) -> bool:
    """Whether it is or contains a CHAR, whose comparison pads; a VARCHAR is compared as stored."""
    return _PADDED.search(declared_type(field)) is not None


def metadata_of(data_type: str) -> dict[str, str]:
    """The metadata of a column of a declared type.

    >>> metadata_of("char(5)"), metadata_of("int")
    ({'__CHAR_VARCHAR_TYPE_STRING': 'char(5)'}, {})
    """
    return {} if plain_type(data_type) == data_type else {TAG: data_type}


def fields_of(columns: list[Column]) -> T.StructType:
    """Columns as Spark and Delta have them, with their metadata."""
    plain = ", ".join(Column(c.name, plain_type(c.type), c.nullable).ddl() for c in columns)
    struct = T.DataType.fromDDL(plain)
    assert isinstance(struct, T.StructType)  # a list of columns is one
    fields = []
    for field, column in zip(struct.fields, columns, strict=True):
        metadata = metadata_of(column.type)
        if column.comment is not None:
            metadata["comment"] = column.comment
        fields.append(T.StructField(field.name, field.dataType, field.nullable, metadata))
    return T.StructType(fields)


def declare_as(rows: DataFrame, schema: T.StructType) -> DataFrame:
    """Rows under the metadata that a table's columns have."""
    return _with_tags(rows, {f.name: f.metadata[TAG] for f in schema.fields if TAG in f.metadata})


def without_padding(rows: DataFrame) -> DataFrame:
    """Rows whose columns compare as plain texts."""
    return _with_tags(rows, {f.name: None for f in rows.schema.fields if TAG in f.metadata})


def _with_tags(rows: DataFrame, tags: dict[str, str] | dict[str, None]) -> DataFrame:
    if not tags:
        return rows
    columns = []
    for field in rows.schema.fields:
        column = F.col(backtick(field.name))
        if field.name in tags:
            metadata = {k: v for k, v in field.metadata.items() if k != TAG}
            tag = tags[field.name]
            if tag is not None:
                metadata[TAG] = tag
            column = column.alias(field.name, metadata=metadata)
        columns.append(column)
    return rows.select(*columns)


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
