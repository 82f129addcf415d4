"""A session that runs Spark's SQL on DuckDB, and rows that Python holds.

What Spark does lazily is done at once here: a query is run when it is given, on its few rows.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import duckdb
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import functions as F, types as T
from sqlglot import exp

from ctsql.catalog.names import backtick, backtick_all
from tests.scenarios.without_spark.kinds import Ansi, NotModelled, from_duckdb, on_duckdb
from tests.simulation.memory_log import Rows, Session
from tests.simulation.memory_store import Row

_MACROS = """
CREATE MACRO raise_error(message) AS error(message);
CREATE MACRO ct_divisor(b) AS CASE WHEN b = 0 THEN error('Division by zero') ELSE b END;
CREATE MACRO ct_divide(a, b) AS CAST(a AS DOUBLE) / ct_divisor(b);
CREATE MACRO ct_mod(a, b) AS a % ct_divisor(b);
CREATE MACRO timestamp_millis(ms) AS make_timestamptz(ms * 1000);
CREATE MACRO unix_micros(x) AS epoch_us(x);
CREATE MACRO unix_millis(x) AS epoch_ms(x);
CREATE MACRO monotonically_increasing_id() AS row_number() OVER ();
CREATE MACRO unix_date(x) AS date_diff('day', DATE '1970-01-01', x);
"""
_BY_CHANCE = (exp.Rand, exp.Uuid)
_ABOUT_ROWS = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)
_NO_COLUMN = re.compile(r'column "?(\w+)"? not found|does not have a column named "(\w+)"')
_NO_FUNCTION = re.compile(r"Function with name (\w+) does not exist")


class SparkRefusal(PySparkException):
    """What Spark would raise: with a condition, a state and what it says of the statement."""

    def __init__(self, message: str, condition: str, state: str = "", **given: str) -> None:
        super().__init__(message=message, messageParameters=given)
        self._condition, self._state = condition, state

    def getCondition(self) -> str:
        return self._condition

    def getSqlState(self) -> str:
        """The SQLSTATE: 22 is about a row."""
        return self._state


def _as_spark_says(problem: Exception) -> SparkRefusal:
    """An error of DuckDB's or sqlglot's; of another kind than these it is a defect of the model."""
    message = str(problem).splitlines()[0]
    is_misplaced = "cannot contain aggregates" in message
    if is_misplaced or isinstance(problem, sqlglot.ParseError | duckdb.ParserException):
        return SparkRefusal(message, "PARSE_SYNTAX_ERROR")
    if isinstance(problem, _ABOUT_ROWS):
        return SparkRefusal(message, "", "22000")
    column, function = _NO_COLUMN.search(message), _NO_FUNCTION.search(message)
    if column is not None:
        name = backtick(column[1] or column[2])
        return SparkRefusal(message, "UNRESOLVED_COLUMN", objectName=name)
    if function is not None:
        return SparkRefusal(message, "UNRESOLVED_ROUTINE", routineName=backtick(function[1]))
    return SparkRefusal(message, "DUCKDB")


class Frame(Rows):
    """Rows with their columns: as much of a DataFrame as is asked for."""

    is_definite = True

    def __init__(self, session: "DuckSession", schema: T.StructType, rows: Iterable[Row]) -> None:
        super().__init__(rows)
        self.schema = schema
        self.sparkSession: Any = session

    @property
    def plain_frame(self) -> "Frame":
        return self

    frame = plain_frame

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def __getitem__(self, name: str) -> Any:
        return F.col(backtick(name))

    def like(self, rows: Iterable[Row]) -> "Frame":
        return Frame(self.sparkSession, self.schema, rows)

    def select(self, *chosen: Any) -> "Frame":
        """Some columns: names as SQL has them, and values."""
        return self._query(", ".join(map(_selected, chosen)), _tags_of(chosen))

    selectExpr = select

    def where(self, condition: Any) -> "Frame":
        text = condition if isinstance(condition, str) else condition._jc.sql
        return self._query("*", behind=f" WHERE {text}")

    def withColumn(self, name: str, value: Any) -> "Frame":
        others = backtick_all([c for c in self.columns if c != name])
        return self.select(*others, value.alias(name))

    def groupBy(self, *keys: Any) -> Any:
        """Groups, of which values are asked by ``agg``."""
        behind = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""

        def agg(*values: Any) -> Frame:
            chosen = (*keys, *values)
            return self._query(", ".join(map(_selected, chosen)), _tags_of(chosen), behind)

        return SimpleNamespace(agg=agg)

    def orderBy(self, *columns: str, ascending: bool = True) -> "Frame":
        way = "ASC" if ascending else "DESC"
        return self._query("*", behind=f" ORDER BY {', '.join(f'{c} {way}' for c in columns)}")

    def limit(self, count: int) -> "Frame":
        return self.like(self.rows[:count])

    def _query(self, what: str, tags: dict[str, Any] | None = None, behind: str = "") -> "Frame":
        session, name = self.sparkSession, f"__ct_here_{id(self)}"
        self.createOrReplaceTempView(name)
        try:
            made: Frame = session.sql(f"SELECT {what} FROM {name}{behind}")
        finally:
            session.dropTempView(name)
        mine = {f.name: f.metadata for f in self.schema}
        for field in made.schema:  # a column that is only passed on keeps what it is declared as
            field.metadata = (tags or {}).get(field.name, mine.get(field.name, {}))
        made.is_definite = made.is_definite and self.is_definite
        return made

    def join(self, other: "Frame", on: list[str], how: str) -> "Frame":
        """The rows that have no partner."""
        if how != "left_anti":
            raise NotModelled(how)
        gone = set(other.select(*on).rows)
        kept = zip(self.rows, self.select(*on).rows, strict=True)
        return self.like([row for row, key in kept if key not in gone])

    def localCheckpoint(self, eager: bool) -> "Frame":
        """They are computed already."""
        return self

    def toDF(self, *names: str) -> "Frame":
        fields = zip(names, self.schema.fields, strict=True)
        renamed = [T.StructField(n, f.dataType, f.nullable, f.metadata) for n, f in fields]
        return Frame(self.sparkSession, T.StructType(renamed), self.rows)

    def unionAll(self, other: "Frame") -> "Frame":
        return self.like([*self.rows, *other.rows])

    def unionByName(self, other: Any, allowMissingColumns: bool = False) -> "Frame":
        return self.unionAll(other.select(*backtick_all(self.columns)))

    def createOrReplaceTempView(self, name: str) -> None:
        self.sparkSession.hold(name, self)

    def collect(self) -> Any:
        named = T.Row(*self.columns)
        return [named(*row) for row in self.rows]


def _selected(chosen: Any) -> str:
    return chosen if isinstance(chosen, str) else str(chosen._jc.selected)


def _tags_of(chosen: Sequence[Any]) -> dict[str, Any]:
    made = [c._jc for c in chosen if not isinstance(c, str)]
    return {one.name: one.tags or {} for one in made if one.name}


class DuckSession(Session):
    """A SparkSession whose queries DuckDB runs; ``commands`` runs what is no query."""

    def __init__(self, commands: Callable[[exp.Expression], "Frame | None"]) -> None:
        super().__init__()
        self.duck = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
        self.duck.execute("SET TimeZone = 'UTC'; PRAGMA disable_optimizer")
        self.duck.execute(_MACROS)
        self.catalog = SimpleNamespace(dropTempView=self.dropTempView)
        self._commands = commands

    def sql(self, text: str) -> Frame:
        try:
            tree = sqlglot.parse_one(text, dialect=Ansi)
        except sqlglot.ParseError as problem:
            raise _as_spark_says(problem) from problem
        done = self._commands(tree)
        return self.query(tree) if done is None else done

    def query(self, tree: exp.Expression) -> Frame:
        is_definite = tree.find(*_BY_CHANCE) is None
        tree = tree.transform(_as_in_spark)
        text = tree.sql("duckdb")
        try:
            self._check_condition(tree)
            found = self.duck.sql(text)
            rows = found.fetchall()
        except duckdb.Error as problem:
            raise _as_spark_says(problem) from problem
        kinds = zip(found.columns, found.types, strict=True)
        schema = T.StructType([T.StructField(name, from_duckdb(kind)) for name, kind in kinds])
        made = Frame(self, schema, rows)
        made.is_definite = is_definite
        return made

    def _check_condition(self, tree: exp.Expression) -> None:
        """Refuse WHERE with a value that is no condition, which DuckDB would cast to one."""
        if not isinstance(tree, exp.Select) or tree.args.get("where") is None:
            return
        parts = {name: tree.args.get(name) for name in ("with_", "from_", "joins", "laterals")}
        asked = exp.Select(expressions=[tree.args["where"].this], **parts).copy()
        (kind,) = self.duck.sql(asked.sql("duckdb")).types
        if str(kind) not in ("BOOLEAN", '"NULL"'):
            raise SparkRefusal(f"WHERE takes a condition, not {kind}", "DATATYPE_MISMATCH")

    def hold(self, name: str, rows: Frame) -> None:
        listed = ", ".join(f'"{f.name}" {on_duckdb(f.dataType)}' for f in rows.schema)
        self.duck.execute(f'CREATE OR REPLACE TEMP TABLE "{name}" ({listed})')
        if rows.rows:
            places = ", ".join("?" for _ in rows.schema)
            self.duck.executemany(f'INSERT INTO "{name}" VALUES ({places})', rows.rows)

    def dropTempView(self, name: str) -> None:
        self.duck.execute(f'DROP TABLE IF EXISTS "{name}"')


def _as_in_spark(node: exp.Expression) -> exp.Expression:
    """Where DuckDB would give another value than Spark, another function."""
    match node:
        case exp.Div() | exp.Mod():
            name = "ct_divide" if isinstance(node, exp.Div) else "ct_mod"
            return exp.func(name, node.this, node.expression)
        case exp.IntDiv():
            raise NotModelled("DIV")
        case exp.Join() if node.kind in ("SEMI", "ANTI"):
            node.set("side", None)
    return node
