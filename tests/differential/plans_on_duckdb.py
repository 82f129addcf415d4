"""Runs change plans on DuckDB: no JVM, milliseconds a query.

The texts are Spark SQL; sqlglot translates them for DuckDB, here and nowhere else. What is
compared is always a multiset of rows.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from ctsql.catalog.errors import Declined
from ctsql.catalog.reserved_columns import DIFF
from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import (
    ChangePlan,
    PrintedQuery,
    StepText,
    TableUse,
    Text,
    change_plan,
    name_by,
)
from ctsql.planner.ivm.sql.queries import StateSteps

Rows = list[tuple[Any, ...]]


def connect_plainly() -> duckdb.DuckDBPyConnection:
    """An empty database that runs a query as it is written, on one thread.

    Without its optimizers: with three of those of DuckDB 1.5.5 one random condition with subqueries
    in some hundred has wrong rows, wherever NULL is compared.
    """
    connection = duckdb.connect(config={"threads": 1, "memory_limit": "1GB"})
    connection.execute("PRAGMA disable_optimizer")
    return connection


def translated(spark_sql: str) -> str:
    """Spark SQL as DuckDB's."""
    tree = sqlglot.parse_one(spark_sql, dialect="spark")
    for join in list(tree.find_all(exp.Join)):
        # DuckDB has no LEFT SEMI but SEMI.
        if join.kind in ("SEMI", "ANTI"):
            join.set("side", None)
    return tree.sql(dialect="duckdb")


class Duck:
    """Tables with an old and a new version, and views kept by change plans.

    Args:
        connection: where the tables are. tables: their columns, with Spark's types.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, Sequence[Column]]
    ) -> None:
        self.connection = connection
        self.tables = dict(tables)
        self.uses: list[TableUse] = []

    # ---- versions

    def version(self, use: TableUse) -> str:
        """The relation to read for a table at one place.

        Where some steps' keys are all that is wanted it has no other rows, so that a plan that
        needs more of them goes wrong.
        """
        self.uses.append(use)
        name = f"{use.table}__{use.version.value}"
        if not use.keys:
            return name
        few = f"{name}_{len(self.uses)}"
        where = {
            keys: self.version(keys) if isinstance(keys, TableUse) else keys for keys, _ in use.keys
        }
        wanted = " OR ".join(
            f'EXISTS (FROM "{where[keys]}" AS s WHERE '
            + " AND ".join(f't."{a}" IS NOT DISTINCT FROM s."{b}"' for a, b in pairs)
            + ")"
            for keys, pairs in use.keys
        )
        self.connection.execute(
            f'CREATE TEMP TABLE "{few}" AS SELECT * FROM {name} AS t WHERE {wanted}'
        )
        return few

    def sql(self, query: PrintedQuery) -> str:
        """A query of a plan, in Spark's SQL, over tables that are there."""
        tables = {use: self.version(use) for use in query.inputs if isinstance(use, TableUse)}
        return query.sql(name_by(tables.__getitem__))

    def begin(self, name: str) -> None:
        """Remember a table's contents as the old version."""
        self.connection.execute(f"CREATE OR REPLACE TABLE {name}__old AS FROM {name}")

    def finish(self, name: str) -> bool:
        """Take a table's contents as the new version and work out the change; was there one?"""
        run = self.connection.execute
        run(f"CREATE OR REPLACE TABLE {name}__new AS FROM {name}")
        run(f"CREATE OR REPLACE TABLE {name}__none AS FROM {name} LIMIT 0")
        listed = ", ".join(f'"{c.name}"' for c in self.tables[name])
        run(
            f"CREATE OR REPLACE TABLE {name}__delta AS SELECT * FROM (SELECT {listed}, "
            f"CAST(sum(__n) AS BIGINT) AS {DIFF} FROM (SELECT {listed}, 1 AS __n FROM {name}__new "
            f"UNION ALL SELECT {listed}, -1 FROM {name}__old) GROUP BY {listed}) WHERE {DIFF} <> 0"
        )
        found = run(f"SELECT count(*) FROM {name}__delta").fetchone()
        return bool(found and found[0])

    # ---- running

    def rows(self, spark_sql: str) -> Rows:
        """The rows of a query in Spark's SQL."""
        return self.connection.execute(translated(spark_sql)).fetchall()

    def steps(self, steps: Sequence[StepText]) -> None:
        """Compute steps as temporary tables."""
        for step in steps:
            self.connection.execute(
                f'CREATE OR REPLACE TEMP TABLE "{step.name}" AS {translated(self.sql(step.rows))}'
            )

    def text(self, text: Text) -> Rows:
        """The rows of a text."""
        return self.rows(self.sql(text))

    def current(self, spark_sql: str) -> Counter[tuple[Any, ...]]:
        """What a query over the tables' own names gives now."""
        return Counter(frozen(row) for row in self.rows(spark_sql))


def frozen(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row that can be counted; floats to 9 digits, as their sums differ in the last bits."""
    return tuple(_value(v) for v in row)


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else float(f"{value:.9g}")
    if isinstance(value, list):
        return tuple(_value(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((k, _value(v)) for k, v in value.items()))
    return value


def applied(stored: Counter[tuple[Any, ...]], signed_rows: Rows) -> Counter[tuple[Any, ...]]:
    """The stored rows with a signed change added; none may be fewer than zero times there."""
    total = Counter(stored)
    for row in signed_rows:
        total[frozen(row[:-1])] += int(row[-1])
    assert min(total.values(), default=0) >= 0, f"negative rows: {-total}"
    return +total


def planned(sql: str, tables: Mapping[str, Sequence[Column]]) -> ChangePlan:
    """The plan of a query that must have one."""
    plan = change_plan(sql, tables)
    assert not isinstance(plan, Declined), f"{plan} in {sql}"
    return plan


class View:
    """A view kept by its change plan, checked against recomputation after every round."""

    def __init__(self, duck: Duck, sql: str, plan: ChangePlan | None = None) -> None:
        self.duck = duck
        self.sql = sql
        self.plan = planned(sql, duck.tables) if plan is None else plan
        self.stored = duck.current(sql)
        self.with_state = False
        self.large: Collection[str] = ()

    def keep_state(self) -> None:
        """Fill the state tables from what is there now, and use them from now on."""
        self.with_state = True
        naming = name_by(lambda use: use.table)
        for state in self.plan.states:
            text = translated(self.plan.initial_state(state.number).sql(naming))
            self.duck.connection.execute(f"CREATE TABLE __ct_state_{state.number} AS {text}")
            rows = self.duck.rows(self.plan.of_state(state.number).sql(naming))
            assert Counter(map(frozen, rows)) == self.duck.current(self.sql)

    def keep_rows(self) -> None:
        """Put the stored rows where the plan's texts read the view."""
        text = self.plan.normal().sql(name_by(lambda use: use.table))
        self.duck.connection.execute(f"CREATE OR REPLACE TABLE __ct_view AS {translated(text)}")

    def refresh_first_rows(
        self, changed_tables: Collection[str], *, writes_state: bool = True
    ) -> tuple[Counter[tuple[Any, ...]], bool]:
        """The new rows of an ORDER BY .. LIMIT by the stored ones, and whether they are right."""
        used = [s.number for s in self.plan.states] if self.with_state else []
        texts = self.plan.first_rows(changed_tables, used, large=self.large)
        assert texts is not None
        self.duck.steps(texts.steps)
        found = Counter(frozen(row) for row in self.duck.text(texts.rows))
        holds = bool(self.duck.rows(self.duck.sql(texts.holds))[0][0])
        for number, steps in texts.states.items() if writes_state else ():
            self._write_state(number, steps)
        return found, holds

    def refresh(self, changed_tables: Collection[str]) -> Counter[tuple[Any, ...]]:
        """Follow a round of changes by the signed change, or by all groups; the new contents."""
        used = [s.number for s in self.plan.states] if self.with_state else []
        is_chosen = (
            self.with_state and self.plan.reads_all_groups and self.plan.kept_state is not None
        )
        make = self.plan.rows_from_groups if is_chosen else self.plan.delta
        texts = make(changed_tables, used, large=self.large)
        if texts is None:
            return self.stored
        self.duck.steps(texts.steps)
        rows = self.duck.text(texts.rows)
        made = Counter(map(frozen, rows)) if is_chosen else applied(self.stored, rows)
        for number, steps in texts.states.items():
            self._write_state(number, steps)
        return made

    def _write_state(self, number: int, steps: StateSteps) -> None:
        """Replace the rows of a state table that change."""
        name = f"__ct_state_{number}"
        run = self.duck.connection.execute
        before, after = (
            Counter(frozen(row) for row in run(f'FROM "{step}"').fetchall())
            for step in (steps.before, steps.after)
        )
        held = Counter(frozen(row) for row in run(f"FROM {name}").fetchall())
        assert held >= before, "what changes was stored"
        (plan,) = (s for s in self.plan.states if s.number == number)
        count = plan.key_columns
        gone = [row for row in after if count and row[count] == 0]
        run(f"DELETE FROM {name}")
        for row in (held - before + after).elements():
            if row not in gone:
                run(f"INSERT INTO {name} VALUES ({', '.join('?' for _ in row)})", list(row))

    def refresh_keyed(self, changed_tables: Collection[str]) -> Counter[tuple[Any, ...]] | None:
        """Follow a round by replacing the affected keys; None if the view has none to show."""
        texts = self.plan.rows_by_key(changed_tables, large=self.large)
        if texts is None:
            return None
        self.duck.steps(texts.steps)
        wanted = Counter(frozen(row) for row in self.duck.text(texts.rows))
        listed = ", ".join(name for _, name in texts.pairs)
        keys = {frozen(row) for row in self.duck.rows(f"SELECT {listed} FROM {texts.keys}")}
        places = [self.plan.columns.index(column) for column, _ in texts.pairs]
        kept = {
            row: n for row, n in self.stored.items() if tuple(row[p] for p in places) not in keys
        }
        return Counter(kept) + wanted

    def check_round(self, changed_tables: Collection[str], what: str) -> bool:
        """Follow a round in each way that the plan has, to the query's rows; did these change?"""
        wanted = self.duck.current(self.sql)
        old = self.plan.normal().sql(name_by(lambda use: f"{use.table}__old"))
        self.duck.connection.execute(f"CREATE OR REPLACE TABLE __ct_view AS {translated(old)}")
        if self.plan.inexact is None:
            assert self.refresh(changed_tables) == wanted, what
            assert self.refresh_keyed(changed_tables) in (None, wanted), what
        elif self.plan.first_rows(changed_tables) is None:
            assert wanted == self.stored, what
        else:
            found, holds = self.refresh_first_rows(changed_tables)
            assert not holds or found == wanted, what
        return wanted != self.stored
