"""The types of the battery, each with values at its edges, and what Spark can do with them.

Every value is a literal of Spark's; NULL is one of each. The first two are what the ways
compare with. INTERVAL, TIME and VOID are left out: Delta stores none of them
(:data:`NOT_STORED`). Sums are asked for only where Spark's do not depend on the order of rows.
"""

from dataclasses import dataclass

from ctsql.runtime.spark.versions import at_least

EQUAL = "equal"  # `=` and IN, keys of joins
GROUP = "group"  # GROUP BY
SORT = "sort"  # ORDER BY, MIN and MAX, keys of windows, set operations
ADD = "add"  # SUM and AVG that are exact
PARTITION = "partition"  # a partition column of a Delta table
DELTA_RS = "delta_rs"  # delta-rs writes it as Spark reads it
ARRAY = "array"

ALL = frozenset({EQUAL, GROUP, SORT})
NUMBER = ALL | {ADD, PARTITION, DELTA_RS}
SCALAR = ALL | {PARTITION, DELTA_RS}


@dataclass(frozen=True, slots=True)
class Kind:
    """One type.

    Attributes:
        sql: as a column is declared. literals: values, without NULL. can: what Spark allows.
    """

    name: str
    sql: str
    literals: tuple[str, ...]
    can: frozenset[str]

    @property
    def value_sql(self) -> str:
        """The type as an expression has it: columns alone are CHAR or VARCHAR."""
        return "STRING" if self.sql.startswith(("CHAR", "VARCHAR")) else self.sql

    @property
    def values(self) -> tuple[str, ...]:
        """The literals with the type, NULL the last."""
        return tuple(f"CAST({v} AS {self.value_sql})" for v in (*self.literals, "NULL"))


_FLOATS = ("0.5", "'NaN'", "'-0.0'", "0.0", "'Infinity'", "'-Infinity'", "-2.25")
_DATES = ("0001-01-01", "1582-10-04", "1582-10-05", "1582-10-10", "1582-10-14", "1582-10-15",
          "1900-02-28", "1969-12-31", "1970-01-01", "2000-02-29", "9999-12-31")  # fmt: skip
_INSTANTS = ("2020-02-29 12:34:56.789012", "1582-10-10 10:10:10.000001", "0001-01-01 00:00:00",
             "1582-10-04 23:59:59.999999", "1582-10-15 00:00:00", "1883-11-18 12:03:58",
             "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2038-01-19 03:14:08",
             "9999-12-31 23:59:59.999999")  # fmt: skip
_TEXTS = ("'ab'", "'x'", "''", "' '", "'ab '", "'ab  '", "'AB'", "'ä€😀'", r"'a\0b'", r"'\0'",
          "'e\u0301'", "'é'", "'NULL'", "'q\"uo`te'", r"'\n'", "'10'", "'9'", "'a/b=c%20:'",
          # Delta keeps the first 32 letters for its statistics.
          "repeat('a', 40)", "concat(repeat('a', 40), 'b')", "repeat('\U0010ffff', 33)",
          "concat(repeat('a', 31), '😀')")  # fmt: skip

_STRUCT = "STRUCT<x: DOUBLE, y: ARRAY<STRING>, z: STRUCT<d: DATE, n: DECIMAL(38, 2)>>"

KINDS = (
    Kind("boolean", "BOOLEAN", ("true", "false"), SCALAR),
    Kind("tinyint", "TINYINT", ("1", "-128", "127", "0", "7"), NUMBER),
    Kind("smallint", "SMALLINT", ("1", "-32768", "32767", "0"), NUMBER),
    Kind("int", "INT", ("1", "-2147483648", "2147483647", "0"), NUMBER),
    Kind("bigint", "BIGINT", ("1", "2", "-3", "9007199254740993", "0"), NUMBER),
    Kind("bigint_edges", "BIGINT",
         ("1", "9223372036854775807", "-9223372036854775808", "9007199254740993"), SCALAR),
    Kind("float", "FLOAT", (*_FLOATS, "16777217"), ALL | {ADD, DELTA_RS}),
    Kind("double", "DOUBLE", (*_FLOATS, "9007199254740993"), ALL | {ADD, DELTA_RS}),
    Kind("double_edges", "DOUBLE",
         ("0.1", "1.7976931348623157E308", "-1.7976931348623157E308", "4.9E-324", "2.2E-308",
          "0.30000000000000004", "1E23"), ALL | {DELTA_RS}),
    Kind("decimal", "DECIMAL(12, 2)", ("1.50", "-0.01", "0", "9999999999.99", "2.5"), NUMBER),
    Kind("decimal_small", "DECIMAL(5, 5)", ("0.5", "-0.99999", "0.00001", "0"), NUMBER),
    Kind("decimal_long", "DECIMAL(38, 10)",
         ("1.5", "-1234567890123456789012345678.0123456789", "0.0000000001",
          "9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999",
          "0"), SCALAR),
    Kind("decimal_whole", "DECIMAL(38, 0)",
         ("1", "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999",
          "0", "9007199254740993"), SCALAR),
    Kind("decimal_places", "DECIMAL(38, 38)",
         ("0.5", "0.99999999999999999999999999999999999999", "-0.5", "0.1"), SCALAR),
    Kind("string", "STRING", _TEXTS, SCALAR),
    Kind("char", "CHAR(5)", ("'ab'", "'x'", "''", "'ab  '", "'äöü'", "'abcde'"), ALL),
    Kind("varchar", "VARCHAR(5)", ("'ab'", "'x'", "''", "'ab '", "'äöü'", "'abcde'"), ALL),
    Kind("binary", "BINARY", ("X'00FF'", "X'61'", "X''", "X'00'", "X'FF'", "X'6162'"),
         ALL | {DELTA_RS}),
    Kind("date", "DATE", tuple(f"DATE '{d}'" for d in _DATES), SCALAR),
    Kind("timestamp", "TIMESTAMP", tuple(f"TIMESTAMP '{d}'" for d in _INSTANTS), SCALAR),
    Kind("timestamp_ntz", "TIMESTAMP_NTZ", tuple(f"TIMESTAMP_NTZ '{d}'" for d in _INSTANTS), ALL),
    Kind("ints", "ARRAY<INT>", ("array(1, 2)", "array()", "array(NULL)", "array(2, 1)",
                                "array(1, NULL)"), ALL | {ARRAY, DELTA_RS}),
    Kind("doubles", "ARRAY<DOUBLE>",
         ("array(0.5D)", "array(double('NaN'))", "array(double('-0.0'), 1)", "array(0.0D, 1)",
          "array()", "array(NULL, 2)"), ALL | {ARRAY, DELTA_RS}),
    Kind("texts", "ARRAY<ARRAY<STRING>>",
         ("array(array('a', NULL))", "array(array())", "array()", "array(NULL, array('ä ', ''))"),
         ALL | {ARRAY, DELTA_RS}),
    Kind("map", "MAP<STRING, DOUBLE>",
         ("map('a', 1D)", "map('a', double('NaN'), 'b', 1)", "map()",
          "map('b', 1, 'a', double('NaN'))", "map('a', double('-0.0'))", "map('a', 0D)"),
         frozenset({GROUP, DELTA_RS})),
    # Spark 4.2 groups by a map as if a NULL in it were any number: it is only carried here.
    Kind("map_nulls", "MAP<STRING, INT>",
         ("map('a', 1)", "map('a', 7, 'b', NULL)", "map()", "map('b', NULL, 'a', 7)",
          "map('a', NULL)"), frozenset({DELTA_RS})),
    Kind("map_nested", "MAP<INT, STRUCT<d: DATE, l: ARRAY<DECIMAL(38, 2)>>>",
         ("map(1, named_struct('d', DATE '1582-10-10', 'l', array(1.5BD)))", "map()",
          "map(2, NULL, 1, named_struct('d', NULL, 'l', array()))",
          "map(1, named_struct('d', NULL, 'l', array()), 2, NULL)"), frozenset({GROUP, DELTA_RS})),
    # Spark compares structs of equal types only, so each value has the column's.
    Kind("struct", _STRUCT, tuple(
        f"CAST({value} AS {_STRUCT})"
        for value in (
          "named_struct('x', 0.5D, 'y', array('a', NULL), 'z', named_struct('d', DATE "
          "'1582-10-10', 'n', 1.5BD))",
          "named_struct('x', double('-0.0'), 'y', array(), 'z', NULL)",
          "named_struct('x', 0D, 'y', array(), 'z', NULL)",
          "named_struct('x', double('NaN'), 'y', NULL, 'z', named_struct('d', NULL, 'n', NULL))",
          "named_struct('x', NULL, 'y', NULL, 'z', NULL)",
        )), ALL | {DELTA_RS}),
    Kind("struct_map", "STRUCT<m: MAP<STRING, BINARY>, s: STRING>",
         ("named_struct('m', map('k', X'00'), 's', 'a')", "named_struct('m', map(), 's', '')",
          "named_struct('m', NULL, 's', NULL)",
          "named_struct('m', map('b', X'', 'a', NULL), 's', 'a')",
          "named_struct('m', map('a', NULL, 'b', X''), 's', 'a')"), frozenset({GROUP, DELTA_RS})),
)  # fmt: skip
if at_least(4, 1):  # before, Spark cannot copy one out of a file with deleted rows (SPARK-55552)
    KINDS += (
        Kind("variant", "VARIANT",
             ("parse_json('{\"a\": 1, \"b\": [null, 1.5]}')", "parse_json('1')",
              "parse_json('1.0')", "parse_json('null')", "parse_json('\"x\"')",
              "parse_json('[]')"), frozenset()),
    )  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}

NOT_STORED = {
    "TIME": "NOT_SUPPORTED",
    "INTERVAL DAY TO SECOND": "NOT_SUPPORTED",
    "INTERVAL YEAR TO MONTH": "NOT_SUPPORTED",
    "VOID": "INVALID_COLUMN_TYPE",
}
"""Types that Delta does not store, with the condition that CREATE TABLE gives."""


def column(kind: Kind) -> str:
    """The column of a type in the tables of the battery."""
    return f"c_{kind.name}"


def picked(kind: Kind, number: str, salt: int) -> str:
    """One of a type's values, chosen by an expression: equal numbers give equal values."""
    values = kind.values
    chosen = f"CAST(pmod(xxhash64({number}, '{kind.name}', {salt}), {len(values)}) AS INT)"
    return f"element_at(array({', '.join(values)}), {chosen} + 1)"
