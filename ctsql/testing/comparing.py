"""Compares stored rows with the expected ones.

Spark casts each expected value to its column's type; a rounded value is an error: an INT does not
hold 1.5. Rows are multisets: order does not matter unless the caller asks for it, copies do. Two
rows are equal as in all writes (docs/decisions/0007-row-equality.md): NULL equals NULL, NaN equals
NaN, numbers are exact.

Driver-local rows are compared in the driver, others by Spark; the first differences are kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F, types as T

from ctsql.catalog.errors import CtsqlError, Declined, error
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.reserved_columns import DIFF
from ctsql.catalog.schemas import char_length, quote_text
from ctsql.catalog.spans import Span
from ctsql.planner.lowering.spark_types import declared_type, type_name
from ctsql.results.conversions import Row
from ctsql.results.result import Result
from ctsql.runtime.rows.multiset import cancel, keys, repeat_by_diff, signed_difference
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows, row_set
from ctsql.runtime.rows.types import fits_arrow
from ctsql.runtime.spark.failures.errors import translate_spark_errors

_PLAIN = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)$"
_SPELLINGS = (
    ("^[+]", ""),
    ("([.][0-9]*?)0+$", "$1"),
    ("[.]$", ""),
    ("^(-?)0+(?=[0-9])", "$1"),
    ("^(?=[.])", "0"),
    ("^-(?=[.])", "-0"),
    ("^(-?)$|^-0$", "0"),
)
"""Replacements, in order, after which two spellings of one number are equal."""
ROWS_SHOWN = 20  # of the rows that are missing, and of those that are not expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The differing rows; none if only the order differs.

    Attributes:
        types: of the columns, as Spark names them.
        missing: expected rows that do not exist. surplus: the reverse. Both: the first ones.
        missing_count, surplus_count: the numbers of all such rows.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    missing: tuple[Row, ...]
    surplus: tuple[Row, ...]
    missing_count: int
    surplus_count: int

    @property
    def is_order(self) -> bool:
        """Whether only the order differs."""
        return not (self.missing_count or self.surplus_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTypes:
    """Converts expected values to the types of columns."""

    schema: T.StructType
    types: tuple[str, ...]  # of the columns, as SQL has them
    # of the columns whose cast may lose digits, with texts instead
    text_types: Mapping[int, str]

    @staticmethod
    def of(schema: T.StructType) -> "ColumnTypes":
        """For the compared columns."""
        types = tuple(type_name(f.dataType) for f in schema.fields)
        literal = {i: type_name(_with_texts(f.dataType)) for i, f in enumerate(schema.fields)}
        lossy = {i: kind for i, kind in literal.items() if kind != types[i]}
        return ColumnTypes(schema=schema, types=types, text_types=lossy)

    def check_count(self, count: int, span: Span) -> None:
        """Raise COLUMN_COUNT_MISMATCH unless there are as many values as columns."""
        if count != len(self.schema):
            raise error(
                "COLUMN_COUNT_MISMATCH",
                span=span,
                message=f"{len(self.schema)} column(s) are compared, with {count} value(s)",
                detail=f"The columns are: {', '.join(self.schema.names)}.",
                hint="To compare some of them: EXPECT x (a, b) VALUES (...)",
            )

    def of_values(self, expected: DataFrame) -> DataFrame:
        """Rows of cast values; each value is checked against its text."""
        literal = {c: f"e{len(self.schema) + n}" for n, c in enumerate(self.text_types)}
        values = [
            _exact(f"e{i}", literal.get(i), field, self.types[i])
            for i, field in enumerate(self.schema.fields)
        ]
        return _number_columns(expected).selectExpr(*values)

    def of_query(self, expected: DataFrame, span: Span) -> DataFrame:
        """The rows of a query, with its columns, in order, cast to these.

        Raises:
            COLUMN_COUNT_MISMATCH: the query has more or fewer columns. TYPE_MISMATCH: a type
                cannot be cast.
        """
        self.check_count(len(expected.columns), span)
        columns = []
        for i, field in enumerate(self.schema.fields):
            literal = f"CAST(e{i} AS {self.text_types[i]})" if i in self.text_types else None
            columns.append(_exact(f"CAST(e{i} AS {self.types[i]})", literal, field, self.types[i]))
        try:
            with translate_spark_errors():
                return _number_columns(expected).selectExpr(*columns)
        except CtsqlError as problem:
            problem.span = problem.span or span
            raise


def _number_columns(rows: DataFrame) -> DataFrame:
    """The rows with their columns named by place."""
    return rows.toDF(*(f"e{i}" for i in range(len(rows.columns))))


def _with_texts(kind: T.DataType) -> T.DataType:
    """A type with texts instead of types whose cast may lose digits."""
    match kind:
        case T.IntegralType() | T.DecimalType() | T.DateType():
            return T.StringType()
        case T.ArrayType():
            return T.ArrayType(_with_texts(kind.elementType))
        case T.MapType():
            return T.MapType(_with_texts(kind.keyType), _with_texts(kind.valueType))
        case T.StructType():
            return T.StructType(
                [T.StructField(f.name, _with_texts(f.dataType)) for f in kind.fields]
            )
    return kind


def _exact(value: str, literal: str | None, field: T.StructField, kind: str) -> str:
    """A value as SQL; raises an error if the cast changed its number or lost a time of day."""
    if literal is not None:
        same = _is_same(literal, value, field.dataType)
        what = quote_text(f" is no {field.dataType.simpleString()}")
        problem = f"raise_error(concat(CAST({literal} AS STRING), {what}))"
        value = f"CASE WHEN {same} THEN {value} ELSE CAST({problem} AS {kind}) END"
    length = char_length(declared_type(field))
    if length is not None:  # CHAR values are stored with trailing blanks
        rpad = f"rpad({value}, {length}, ' ')"
        value = f"CASE WHEN length({value}) < {length} THEN {rpad} ELSE {value} END"
    return value


def _is_same(literal: str, value: str, kind: T.DataType, depth: int = 0) -> str:
    """Whether the cast lost nothing of a value, nested values included."""
    match kind:
        case T.DateType():
            return _is_midnight(literal)
        case T.IntegralType() | T.DecimalType():
            return _is_same_number(literal, value)
        case T.ArrayType():
            one, other = f"t{depth}", f"v{depth}"
            each = _is_same(one, other, kind.elementType, depth + 1)
            pairs = f"zip_with({literal}, {value}, ({one}, {other}) -> {each})"
            return f"coalesce(forall({pairs}, same -> same), true)"
        case T.MapType():
            of = {"map_keys": T.ArrayType(kind.keyType), "map_values": T.ArrayType(kind.valueType)}
            same = (_is_same(f"{f}({literal})", f"{f}({value})", t, depth) for f, t in of.items())
            return " AND ".join(same)
        case T.StructType():
            fields = [(backtick(f.name), f.dataType) for f in kind.fields]
            same = (_is_same(f"({literal}).{n}", f"({value}).{n}", t, depth) for n, t in fields)
            return " AND ".join(["true", *same])
    return "true"


def _is_midnight(literal: str) -> str:
    """Whether a text has no time of day, or 00:00."""
    time = f"TRY_CAST({literal} AS TIMESTAMP_NTZ)"
    return f"({time} IS NULL OR {time} = CAST(CAST({time} AS DATE) AS TIMESTAMP_NTZ))"


def _is_same_number(literal: str, value: str) -> str:
    """Whether a text is this number, digit by digit; with an exponent, as a DOUBLE."""
    texts = f"trim({literal})", f"CAST({value} AS STRING)"
    is_plain = " AND ".join(f"{text} RLIKE '{_PLAIN}'" for text in texts)
    digits = " = ".join(map(_digits, texts))
    near = f"TRY_CAST({literal} AS DOUBLE) <=> CAST({value} AS DOUBLE)"
    return f"CASE WHEN {is_plain} THEN {digits} ELSE {near} END"


def _digits(text: str) -> str:
    """One text for one number: 1, 01, +1.0 and 1. are 1."""
    for pattern, instead in _SPELLINGS:
        text = f"regexp_replace({text}, '{pattern}', '{instead}')"
    return text


def compare(
    there: RowSet | DataFrame,
    expected: RowSet | DataFrame | None,
    *,
    is_ordered: bool = False,
    span: Span | None = None,
) -> Difference | None:
    """The difference of rows; None if there is none.

    Args:
        expected: with the same types, in order; None for no rows.

    Raises what computing the rows raises; errors of expected rows get ``span`` if they have none.
    """
    schema = there.schema
    left = _distinct(row_set(there))
    right = None if expected is None else _distinct(row_set(expected))
    if all(fits_arrow(f.dataType) for f in schema.fields):
        mine = theirs = left.collect()
        try:
            if right is not None:
                theirs = right.collect()
            elif not isinstance(mine, Declined):
                theirs = mine.take(())
        except CtsqlError as problem:
            problem.span = problem.span or span
            raise
        if not isinstance(mine, Declined) and not isinstance(theirs, Declined):
            return _of_few(schema, mine, theirs, is_ordered=is_ordered)
    if is_ordered:
        what = "the order of that many rows, or of rows with such values"
        raise error("NOT_SUPPORTED", what=what, hint="Leave ORDER BY out.")
    names = [f"c{i}" for i in range(len(schema))]
    there, nothing = left.frame.toDF(*names), left.frame.toDF(*names).limit(0)
    return _of_any(schema, there, nothing if right is None else right.frame.toDF(*names), names)


def _distinct(rows: RowSet) -> RowSet:
    """The rows with distinct column names; a query may return equal ones."""
    names = rows.schema.names
    if len({fold(name) for name in names}) == len(names):
        return rows
    return SparkRows(rows.frame.toDF(*(f"c{i}" for i in range(len(names)))))


def _of_few(
    schema: T.StructType, there: LocalRows, expected: LocalRows, *, is_ordered: bool
) -> Difference | None:
    mine, theirs = keys(there.arrow), keys(expected.arrow)
    missing, surplus = cancel(theirs, mine)
    if not missing and not surplus and (not is_ordered or mine == theirs):
        return None
    return Difference(
        columns=tuple(schema.names),
        types=_types(schema),
        missing=_rows(expected.take(missing[:ROWS_SHOWN]).plain_frame),
        surplus=_rows(there.take(surplus[:ROWS_SHOWN]).plain_frame),
        missing_count=len(missing),
        surplus_count=len(surplus),
    )


def _of_any(
    schema: T.StructType, there: DataFrame, expected: DataFrame, names: Sequence[str]
) -> Difference | None:
    differences = signed_difference(there, expected, list(names)).persist()
    try:
        with translate_spark_errors():
            counts = differences.select(
                F.coalesce(F.sum(F.when(F.col(DIFF) < 0, -F.col(DIFF))), F.lit(0)),
                F.coalesce(F.sum(F.when(F.col(DIFF) > 0, F.col(DIFF))), F.lit(0)),
            ).collect()[0]
            if not any(counts):
                return None
            missing_rows = differences.where(F.col(DIFF) < 0)
            surplus_rows = differences.where(F.col(DIFF) > 0)
            return Difference(
                columns=tuple(schema.names),
                types=_types(schema),
                missing=_rows(repeat_by_diff(missing_rows, list(names)).limit(ROWS_SHOWN)),
                surplus=_rows(repeat_by_diff(surplus_rows, list(names)).limit(ROWS_SHOWN)),
                missing_count=int(counts[0]),
                surplus_count=int(counts[1]),
            )
    finally:
        differences.unpersist()


def _types(schema: T.StructType) -> tuple[str, ...]:
    return tuple(type_name(f.dataType) for f in schema.fields)


def _rows(frame: DataFrame) -> tuple[Row, ...]:
    return tuple(Result.of_dataframe(frame, convert=translate_spark_errors).fetchall())
