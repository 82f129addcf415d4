"""Random uses of a connection, most of them wrong: statements, parameters, frames, ways to fetch.

For a seed they are the same in every run. A use may fail, but only with an error of ctsql's own;
:func:`foreign` returns any other.
"""

import io
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ctsql.api import Connection
from ctsql.catalog.errors import Error
from ctsql.rendering.show import Format, write_result
from ctsql.results.result import Result

TABLES = """
    CREATE TABLE t (a INT, b BOOLEAN, s STRING, d DOUBLE, n DECIMAL(12, 2), ts TIMESTAMP, x BINARY);
    INSERT INTO t VALUES
        (1, true, 'one', 0.5, 1.25, TIMESTAMP '2020-02-29 12:00:00', X'00FF'),
        (2, false, '', double('NaN'), -1, NULL, NULL);
    CREATE TABLE u (k INT, l ARRAY<INT>, m MAP<STRING, INT>, o STRUCT<x: INT, y: ARRAY<STRING>>);
    INSERT INTO u VALUES (1, array(1, NULL), map('a', 1), named_struct('x', 1, 'y', array('b')));
"""
LITERALS = """
    NULL|0|-1|2147483647|9223372036854775808|1e400|1.5BD|0.1|''|'a'|'é€😀'|'it''s'|X''|X'FF'|true
    double('NaN')|double('Infinity')|-0.0D|DATE '0001-01-01'|DATE '9999-12-31'|DATE '-5000-01-01'
    TIMESTAMP '0001-01-01 00:00:00'|TIMESTAMP '9999-12-31 23:59:59.999999'
    TIMESTAMP_NTZ '2020-01-01'|INTERVAL 1 DAY|INTERVAL '1' YEAR
    INTERVAL '1-2' YEAR TO MONTH|make_interval(1, 2)|TIME '12:30:00'
    array()|array(NULL)|map()|map(1, NULL)|map(array(1), 2)|map(X'01', 2)|named_struct('x', NULL)
    map(named_struct('a', array(1)), map(array('k'), NULL))|struct()|array(map(array(1), 2))
    parse_json('{"a": [1, null]}')|to_variant_object(array(1))
    CAST('a' AS STRING COLLATE UTF8_LCASE)|timestamp_seconds(1e15)
    CAST(1e38 AS DECIMAL(38, 0))|decode(X'FF', 'UTF-8')
    char(0)|'\\u0000'
    a|b|s|d|n|ts|x|t.a|nothing|*|t.*|?|:p|now()|current_date()|rand()|uuid()
    (SELECT 1)|(SELECT a FROM t)|(SELECT max(a) FROM t)|count(*)|sum(a) OVER (ORDER BY a)
    explode(array(1, 2))|inline(array(struct(1)))
"""
OPERATORS = "+ - * / % || = <> < <=> AND OR XOR LIKE IN IS DIV & ^ . :: -> , BETWEEN"
TYPES = """
    INT|BIGINT|STRING|CHAR(3)|VARCHAR(2)|BOOLEAN|DOUBLE|DECIMAL(38, 38)|DECIMAL(39, 1)|DATE
    TIMESTAMP|TIMESTAMP_NTZ|BINARY|VARIANT|VOID|INTERVAL|TIME|ARRAY<INT>
    ARRAY<VOID>|MAP<ARRAY<INT>, INT>|STRUCT<>|STRUCT<x: INT, x: INT>|STRUCT<`a b`: VOID>
    NOPE|INT8|TEXT|STRING COLLATE UNICODE
"""
_LEFT_OUT = """
    java_method reflect try_reflect sequence repeat space lpad rpad array_repeat range
    from_avro to_avro from_protobuf to_protobuf read_files
"""
"""They run code, take the machine's memory or time, or need a package."""
_LETTERS = "'\"`();,.*?:<>=-/\\\0\n\t\r{}[]@#$%&é😀\ud800\ufeff\u2028 aA1"


def words_of(text: str) -> list[str]:
    """The words between bars, over several lines."""
    return [word.strip() for line in text.strip().splitlines() for word in line.split("|")]


@dataclass(frozen=True)
class Use:
    """One use.

    Attributes:
        text: what it is, for a report.
    """

    text: str
    run: Callable[[Connection], object]


class OddUses:
    """Uses of a seed. Args: functions: the names of Spark's functions."""

    def __init__(self, seed: int, functions: list[str]) -> None:
        self._random = random.Random(seed)
        self._literals = words_of(LITERALS)
        self._types = words_of(TYPES)
        self._operators = OPERATORS.split()
        left_out = _LEFT_OUT.split()
        self._functions = sorted(f for f in functions if f.isidentifier() and f not in left_out)

    def __iter__(self) -> Iterator[Use]:
        kinds = [(self._statement, 14), (self._given_rows, 2)]
        while True:
            (make,) = self._random.choices([k for k, _ in kinds], [w for _, w in kinds])
            yield make()

    # ---- texts

    def _pick(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def expression(self, depth: int = 0) -> str:
        """One of any type; few are deep."""
        draw = self._random.random()
        if depth > 3 or draw < 0.3:
            return str(self._random.choice(self._literals))
        inner = self.expression(depth + 1)
        if draw < 0.6:
            count = self._random.choice([0, 1, 1, 2, 2, 3])
            arguments = ", ".join(self.expression(depth + 1) for _ in range(count))
            return f"{self._random.choice(self._functions)}({arguments})"
        if draw < 0.75:
            return f"{inner} {self._random.choice(self._operators)} {self.expression(depth + 1)}"
        if draw < 0.85:
            return f"CAST({inner} AS {self._random.choice(self._types)})"
        if draw < 0.95:
            other = self.expression(depth + 1)
            return self._pick(
                f"CASE WHEN {inner} THEN {other} END",
                f"({inner})",
                f"struct({inner} AS x, {other})",
                f"array({inner}, {other})",
                f"map({inner}, {other})",
                f"{inner} IN ({other})",
                f"{inner}[{other}]",
            )
        return self._deep(inner)

    def _deep(self, inner: str) -> str:
        """Nested, or a chain."""
        count = self._pick(2, 40, 150, 300, 700)
        before, after = self._pick(
            ("(", ")"), ("array(", ")"), ("NOT ", ""), ("- ", ""), ("CAST(", " AS STRING)"),
            ("replace(", ", 'a', 'b')"), ("CASE WHEN true THEN 1 ELSE ", " END"), ("map(1, ", ")"),
            ("struct(", ")"),
            ("a + ", ""), ("a <> 1 AND ", ""), ("s || ", ""),
        )  # fmt: skip
        return before * count + inner + after * count

    def query(self) -> str:
        """A query of a table, or of none."""
        one, other = self.expression(), self.expression()
        return self._pick(
            f"SELECT {one} AS e FROM t",
            f"SELECT {one}, {other} FROM u",
            f"SELECT {one}",
            f"SELECT a, {one} AS e FROM t WHERE {other}",
            f"SELECT {one} AS e, count(*) AS c FROM t GROUP BY {one} HAVING {other}",
            f"SELECT t.a, {one} AS e FROM t LEFT JOIN u ON {other}",
            f"SELECT {one} AS e FROM t UNION ALL SELECT {other} FROM u",
            f"WITH c AS (SELECT {one} AS e) SELECT * FROM c ORDER BY {other} LIMIT 3",
            f"VALUES ({one}, {other}), (1, 2)",
            f"SELECT * FROM {self._pick('t', 'u', 'v', 'k', 'nothing', 'system.status', 'c')}",
        )

    def text(self) -> str:
        """A statement; some are damaged."""
        one, query = self.expression(), self.query()
        kind = self._random.choice(self._types)
        text: str = self._pick(
            query, query, query, query,
            f"EXPLAIN {query}",
            f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}",
            f"CREATE OR REPLACE VIEW w AS {query}",
            f"CREATE TABLE c AS {query}; DROP TABLE c",
            f"CREATE TABLE c (z {kind} DEFAULT {one}); DROP TABLE c",
            f"ALTER TABLE u ADD COLUMN z {kind}; ALTER TABLE u DROP COLUMN z",
            f"CREATE CONTINUAL TASK k ON INPUT t AS (INSERT INTO k {query})",
            f"CREATE CONTINUAL TASK k (e {kind}) ON INPUT t AS (INSERT INTO k {query}; "
            f"DELETE FROM k WHERE {one})",
            "DROP CONTINUAL TASK IF EXISTS k", "DROP MATERIALIZED VIEW IF EXISTS v",
            f"INSERT INTO t (a, s) VALUES ({self._random.randrange(9)}, {one})",
            f"INSERT INTO t (a, d) {query}",
            f"UPDATE t SET s = {one} WHERE a = 1",
            f"DELETE FROM t WHERE a = 7 AND {one}",
            f"MERGE INTO t USING ({query}) AS q ON {one} WHEN MATCHED THEN DELETE",
            f"SUBSCRIBE TO ({query}) UP TO NOW",
            f"SUBSCRIBE TO {self._pick('t', 'v', 'k')} UP TO NOW",
            f"SELECT * FROM t AS OF {one}",
            f"EXPLAIN {self._pick('MATERIALIZED VIEW v', 'CONTINUAL TASK k', query)}",
            f"COMMENT ON TABLE t IS {one}",
            f"SET {self._pick('tick_interval', 'isolation', 'timezone', 'nope')} = {one}",
            f"SHOW {self._pick('TABLES', 'VIEWS', 'CREATE TABLE t', 'CONTINUAL TASKS', 'nope')}",
            f"DESCRIBE {self._pick('t', 'EXTENDED u', 'v', 'nope', 'QUERY ' + query)}",
            f"BEGIN; INSERT INTO t (a) VALUES ({one}); ROLLBACK",
            f"REFRESH MATERIALIZED VIEW v {self._pick('', 'FULL')}",
        )  # fmt: skip
        return self._damaged(text) if self._random.random() < 0.25 else text

    def _damaged(self, text: str) -> str:
        letters = list(text)
        for _ in range(self._random.randrange(1, 4)):
            place = self._random.randrange(len(letters) + 1)
            match self._random.randrange(3):
                case 0:
                    letters[place:place] = self._random.choice(_LETTERS)
                case 1:
                    del letters[place : place + self._random.randrange(1, 6)]
                case _:
                    letters[place:place] = letters[: self._random.randrange(8)]
        return "".join(letters)

    # ---- values of Python

    def value(self, depth: int = 0) -> Any:
        """A parameter, or a value in a row."""
        if depth < 3 and self._random.random() < 0.3:
            items = [self.value(depth + 1) for _ in range(self._random.randrange(3))]
            return self._pick(items, tuple(items), dict.fromkeys("xyz", items))
        return self._pick(
            None, True, 0, -1, 2**31, 2**63, 10**40, 10**4000, 1.5, float("nan"), float("-inf"),
            Decimal("1.10"), Decimal("NaN"), Decimal("1E+900"), Decimal("1E-40"), "", "é😀",
            "\0", "it's", "\ud800", b"\x00\xff", bytearray(b"a"), memoryview(b"b"),
            date.min, date.max, datetime.min, datetime.max.replace(tzinfo=UTC),
            timedelta(days=1), np.int64(5), np.float32("nan"), np.array([1, 2]),
            np.datetime64("NaT"),
            pd.NA, pd.NaT, pd.Timestamp("2020-01-01"), object(), {1, 2}, 1j, {"a": {}}, [[[]]], int,
        )  # fmt: skip

    def _parameters(self, text: str) -> Any:
        if "?" not in text and ":p" not in text and self._random.random() < 0.95:
            return None
        values = [self.value() for _ in range(self._random.randrange(3))]
        return self._pick(None, None, values, tuple(values), {"p": self.value()}, self.value())

    def _rows(self) -> Any:
        names = self._random.choices(["a", "s", "A", "nope", "", "\ud800", "a b"], k=2)
        values = [self.value() for _ in range(2)]
        return self._pick(
            pd.DataFrame(), pd.DataFrame([values], columns=names, dtype=object), pa.table({}), [],
            [dict(zip(names, values, strict=True))], [{}], [values], [tuple(values)], values,
            pd.DataFrame({"a": [1], "s": ["x"]}), self.value(), iter([values]), [[1]],
            pa.table({"a": pa.array([None]), "s": pa.array([values[0] is None])}),
        )  # fmt: skip

    # ---- uses

    def _statement(self) -> Use:
        text = self.text()
        parameters = self._parameters(text)
        fetch = self._random.choice(FETCHES)

        def run(con: Connection) -> None:
            result = con.execute(text, parameters)
            if result.has_rows:
                fetch(result)

        return Use(f"execute({text!a:.3000}, {parameters!a:.300}) {fetch.__name__}", run)

    def _given_rows(self) -> Use:
        rows, name = self._rows(), self._pick("t", "u", "v", "nope", "", "a b", "\ud800", "t;t")
        what = f"{rows!a:.300}"
        match self._random.randrange(3):
            case 0:
                return Use(f"append({name!a}, {what})", lambda con: con.append(name, rows))
            case 1:
                return Use(f"register({name!a}, {what})", lambda con: con.register(name, rows))
            case _:
                sql = self._pick("INSERT INTO t (a, s) VALUES (?, ?)", "DELETE FROM t WHERE a = ?")
                return Use(f"executemany {what}", lambda con: con.executemany(sql, rows))


class _Out(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.buffer = io.BytesIO()


def _shown(format: Format) -> Callable[[Result], object]:
    def show(result: Result) -> None:
        write_result(result, format, _Out())

    show.__name__ = f"as {format.value}"
    return show


FETCHES: list[Callable[[Result], object]] = [
    Result.fetchall, Result.fetchone, Result.to_arrow, Result.to_pandas, Result.to_dicts,
    Result.scalar, Result._repr_html_, list, *map(_shown, Format),
]  # fmt: skip


def foreign(con: Connection, use: Use) -> Exception | None:
    """Run a use; returns what it raises that is no error of ctsql's, or is a defect of it."""
    try:
        use.run(con)
    except Error as problem:
        is_defect = getattr(problem, "condition", "") == "INTERNAL_ERROR"
        return problem if is_defect or "connection to Spark" in str(problem) else None
    except Exception as problem:  # noqa: BLE001  to be reported
        return problem
    return None
