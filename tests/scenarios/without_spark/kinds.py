"""Spark's types: their texts read, and as DuckDB has them. sqlglot knows both spellings."""

import re

import sqlglot
from pyspark.sql import types as T
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from ctsql.planner.lowering.spark_types import metadata_of


class Ansi(Spark):
    """Spark's SQL as the engine's session has it: what CAST cannot convert is an error."""

    class Parser(Spark.Parser):
        STRICT_CAST = True


class NotModelled(Exception):
    """Spark has it, and the engine in its place has not."""


_D = exp.DataType.Type
_SIMPLE: dict[exp.DataType.Type, type[T.DataType]] = {
    _D.TINYINT: T.ByteType, _D.SMALLINT: T.ShortType, _D.INT: T.IntegerType,
    _D.BIGINT: T.LongType, _D.INT128: T.LongType, _D.FLOAT: T.FloatType, _D.DOUBLE: T.DoubleType,
    _D.TEXT: T.StringType, _D.VARCHAR: T.StringType, _D.CHAR: T.StringType,
    _D.BOOLEAN: T.BooleanType, _D.VARBINARY: T.BinaryType, _D.DATE: T.DateType,
    _D.TIMESTAMPTZ: T.TimestampType, _D.TIMESTAMPNTZ: T.TimestampNTZType, _D.NULL: T.NullType,
}  # fmt: skip
"""DuckDB's sum of whole numbers has 128 bits, Spark's 64."""
_LISTED = re.compile(r"\s*(`[^`]*`|\w+)\s+\w")


def of_tree(kind: exp.DataType) -> T.DataType:
    """A type that sqlglot has read."""
    below = [e for e in kind.expressions if isinstance(e, exp.DataType)]
    if kind.this is _D.DECIMAL:
        places = [int(e.name) for e in kind.expressions]
        return T.DecimalType(*places)
    if kind.this in (_D.ARRAY, _D.LIST):
        return T.ArrayType(of_tree(below[0]))
    if kind.this is _D.MAP:
        return T.MapType(*map(of_tree, below))
    if kind.this is _D.STRUCT:
        fields = [T.StructField(f.name, of_tree(f.args["kind"])) for f in kind.expressions]
        return T.StructType(fields)
    if kind.this not in _SIMPLE:
        raise NotModelled(f"type {kind.sql('spark')}")
    return _SIMPLE[kind.this]()


def kind_of(text: str) -> T.DataType:
    """A type, or a list of columns, by its text: what ``DataType.fromDDL`` does in the JVM."""
    if _LISTED.match(text):
        return columns_of(sqlglot.parse_one(f"CREATE TABLE t ({text})", dialect=Ansi))
    return of_tree(exp.DataType.build(text, dialect=Ansi))


def columns_of(create: exp.Expression) -> T.StructType:
    """The columns of a CREATE TABLE."""
    fields = []
    for column in create.find_all(exp.ColumnDef):
        said = {type(c.kind): c.kind for c in column.args.get("constraints", ())}
        unknown = said.keys() - {exp.NotNullColumnConstraint, exp.CommentColumnConstraint}
        if unknown:
            raise NotModelled(f"a column with {unknown.pop().__name__}")
        kind = column.args["kind"]
        metadata = metadata_of(kind.sql("spark").lower())
        if exp.CommentColumnConstraint in said:
            metadata["comment"] = said[exp.CommentColumnConstraint].this.name
        nullable = exp.NotNullColumnConstraint not in said
        fields.append(T.StructField(column.name, of_tree(kind), nullable, metadata))
    return T.StructType(fields)


def on_duckdb(kind: T.DataType) -> str:
    """A type as DuckDB spells it."""
    if isinstance(kind, T.NullType):
        return '"NULL"'
    return exp.DataType.build(kind.simpleString(), dialect=Ansi).sql("duckdb")


def from_duckdb(kind: object) -> T.DataType:
    """A type that DuckDB tells."""
    text = str(kind)
    return T.NullType() if text == '"NULL"' else of_tree(exp.DataType.build(text, dialect="duckdb"))
