"""UPDATE, DELETE and MERGE as Spark's analyser understands them, over rows that are known.

Delta's analyser makes one command of a statement: the condition, and for each column of the table
the value it gets, with casts, defaults and their checks. Here the command is not run: its
expressions are put over rows that the driver holds, and Spark evaluates them there. So a value is
what it would be had the command run, and an error that Spark would raise is raised.

What is relied on: ``UpdateCommand``, ``DeleteCommand`` and ``MergeIntoCommand`` of Delta, the
expressions of Catalyst, and its rules ``ConstantFolding`` and ``UnwrapCastInBinaryComparison``.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession, types as T

from ctsql.catalog.reserved_columns import ACTION, FILE_COLUMN, KEY_, VALUE_
from ctsql.planner.keyed_writes import (
    KEYS_MAX,
    Comparison,
    GivenValue,
    KeyColumn,
    OwnColumn,
    Term,
    key_columns,
)
from ctsql.runtime.spark.scala import class_name, scala_items, singleton

DELETED, UPDATED, INSERTED = 1, 2, 3
"""What a statement does with a row, in the column ``ACTION``; 0 for nothing."""
SOURCE_BYTES_MAX = 10 * 1024 * 1024
"""The most bytes of tables that the source of a MERGE reads, by Spark's estimate."""
_VERBS = {"UpdateCommand": "UPDATE", "DeleteCommand": "DELETE", "MergeIntoCommand": "MERGE"}


class _Catalyst:
    """Spark's classes of plans and expressions, looked up once."""

    def __init__(self, jvm: Any) -> None:
        catalyst = jvm.org.apache.spark.sql.catalyst
        expressions, logical = catalyst.expressions, catalyst.plans.logical
        self.skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        self.frame_of = jvm.org.apache.spark.sql.classic.Dataset.ofRows
        self.relation, self.project, self.filter = (
            logical.LocalRelation, logical.Project, logical.Filter,
        )  # fmt: skip
        self.join = logical.Join
        self.empty_row = singleton(catalyst, "InternalRow").empty()
        self.left_outer = singleton(catalyst.plans, "LeftOuter")
        self.no_hint = singleton(logical, "JoinHint").NONE()
        self.alias = expressions.Alias
        self.new_id = singleton(expressions, "NamedExpression").newExprId
        self.literal = singleton(expressions, "Literal").apply
        self.choose, self.equal = expressions.CaseWhen, expressions.EqualTo
        self.is_there = expressions.IsNotNull
        self.has_subquery = singleton(expressions, "SubqueryExpression").hasSubquery
        unwrap, fold = "UnwrapCastInBinaryComparison", "ConstantFolding"
        self.rules = [singleton(catalyst.optimizer, name) for name in (fold, unwrap, fold)]
        self.pair, self.option = jvm.scala.Tuple2, jvm.scala.Option.apply
        self.list, self.to_seq = (
            jvm.java.util.ArrayList,
            jvm.org.apache.spark.api.python.PythonUtils,
        )
        self.operations = jvm.org.apache.spark.sql.delta

    def seq(self, items: Sequence[Any]) -> Any:
        """A Scala Seq of JVM objects."""
        java_list = self.list()
        for item in items:
            java_list.add(item)
        return self.to_seq.toSeq(java_list)

    def as_column(self, value: Any, name: str) -> Any:
        """A value as a column of a name."""
        none = self.option(None)
        return self.alias(value, name, self.new_id(), self.seq(()), none, self.seq(()))

    def case(self, branches: Sequence[tuple[Any, Any]], otherwise: Any) -> Any:
        """The value of the first branch whose condition is true."""
        if not branches:
            return otherwise
        pairs = self.seq([self.pair(when, then) for when, then in branches])
        return self.choose(pairs, self.option(otherwise))


@lru_cache(maxsize=2)
def _catalyst(jvm: Any) -> _Catalyst:
    return _Catalyst(jvm)


class TableWrite:
    """A statement on a table, analysed.

    Attributes:
        verb: UPDATE, DELETE or MERGE; empty for a statement of another kind.
    """

    def __init__(self, session: SparkSession, text: str) -> None:
        """Args: text: what Spark is given. Raises what Spark's parser and analyser raise."""
        self._session = session
        self._jsession: Any = session._jsparkSession
        self._spark = _catalyst(session._jvm)
        state = self._jsession.sessionState()
        plan = state.sqlParser().parsePlan(text)
        self._plan: Any = state.executePlan(plan, self._spark.skip).analyzed()
        self.verb = _VERBS.get(class_name(self._plan), "")

    def run(self) -> DataFrame:
        """Have Spark run it as it is."""
        return DataFrame(self._spark.frame_of(self._jsession, self._plan), self._session)

    # ---- what it is about

    @cached_property
    def schema(self) -> T.StructType:
        """The table's columns, as the statement was analysed with."""
        return self._frame(self._plan.target()).schema

    @cached_property
    def why_not(self) -> str:
        """Why its rows are not computed here; empty if they may be."""
        if not self.verb:
            return "it is not an UPDATE, DELETE or MERGE"
        if self.verb != "MERGE" and not self._plan.condition().isDefined():
            return "it has no condition"
        if self.verb == "MERGE":
            plan = self._plan
            if not plan.notMatchedBySourceClauses().isEmpty():
                return "it is about rows without a match in the source"
            if plan.schemaEvolutionEnabled() or not plan.trackHighWaterMarks().isEmpty():
                return "it changes the table's columns, or counts"
        if any(self._spark.has_subquery(e) or not e.deterministic() for e in self._expressions()):
            return "it has a subquery, or values by chance"
        return ""

    def _expressions(self) -> Iterator[Any]:
        yield self._condition
        if self.verb == "UPDATE":
            yield from scala_items(self._plan.updateExpressions())
        if self.verb == "MERGE":
            for clause in self._clauses:
                if clause.condition().isDefined():
                    yield clause.condition().get()
                yield from self._values(clause)

    @property
    def _condition(self) -> Any:
        condition = self._plan.condition()
        return condition if self.verb == "MERGE" else condition.get()

    @cached_property
    def _clauses(self) -> list[Any]:
        """The WHEN clauses of a MERGE; those for matched rows first."""
        plan = self._plan
        return [*scala_items(plan.matchedClauses()), *scala_items(plan.notMatchedClauses())]

    def _values(self, clause: Any) -> list[Any]:
        """What a clause gives the table's columns, in order; empty if it deletes."""
        return [action.expr() for action in scala_items(clause.resolvedActions())]

    @cached_property
    def _own(self) -> list[Any]:
        """The table's columns."""
        return list(scala_items(self._plan.target().output()))

    @cached_property
    def _keys(self) -> tuple[tuple[KeyColumn, ...], list[Any]]:
        """The columns that the condition fixes, and all values that it compares columns with."""
        reader = _Conjuncts(self._own, source=self.verb == "MERGE")
        target = self._plan.target()
        condition = self._condition
        if self.verb != "MERGE":
            plan = self._spark.filter(condition, target)
            for rule in self._spark.rules:
                plan = rule.apply(plan)
            if class_name(plan) != "Filter":
                return (), []
            condition = plan.condition()
        columns = key_columns(reader.read(condition), is_whole=self.verb == "MERGE")
        return columns, reader.values

    @property
    def keys(self) -> tuple[KeyColumn, ...]:
        """The columns of the table that the condition fixes."""
        return self._keys[0]

    def key_values(self, source: tuple[Any, Any] | None) -> DataFrame:
        """The values with which the columns are compared, numbered from ``KEY_0``.

        One row of all values, or a row for each of a source.
        """
        spark = self._spark
        columns = [spark.as_column(value, f"{KEY_}{i}") for i, value in enumerate(self._keys[1])]
        one_row = spark.seq([spark.empty_row]), spark.seq(())
        below = self._over(*(source or one_row))
        return self._frame(spark.project(spark.seq(columns), below))

    # ---- the source of a MERGE

    @property
    def source_is_small(self) -> bool:
        """Whether Spark estimates that the source reads little."""
        leaves = self._frame(self._plan.source())._jdf.queryExecution().optimizedPlan()
        read = (leaf.stats().sizeInBytes() for leaf in scala_items(leaves.collectLeaves()))
        return sum(int(str(size)) for size in read) <= SOURCE_BYTES_MAX

    @property
    def source(self) -> DataFrame:
        """The rows of the source, lazily."""
        return self._frame(self._plan.source())

    @property
    def source_output(self) -> Any:
        """The columns of the source."""
        return self._plan.source().output()

    # ---- what it does

    def changes(self, candidates: tuple[Any, Any], source: tuple[Any, Any] | None) -> DataFrame:
        """What the statement does with stored rows, and the rows of a source without a match.

        Args:
            candidates: the rows, the JVM's, and their columns: the table's, and those that locate.
            source: the rows of the source, and its columns.

        Returns:
            the columns of ``candidates``, ``ACTION``, and from ``VALUE_0`` the new values.
        """
        spark = self._spark
        rows, columns = candidates
        places = list(scala_items(columns))[len(self._own) :]
        stored_rows = self._over(rows, spark.seq([*self._own, *places]))
        output = [*self._own, *places]
        if source is None:
            below = spark.filter(self._condition, stored_rows)
            is_update = self.verb == "UPDATE"
            action = spark.literal(UPDATED if is_update else DELETED)
            values = list(scala_items(self._plan.updateExpressions())) if is_update else []
            return self._frame(
                self._project(below, [*output, spark.as_column(action, ACTION)], values)
            )
        hint, on = spark.no_hint, spark.option(self._condition)
        pairs = spark.join(self._over(*source), stored_rows, spark.left_outer, on, hint)
        # The number of the clause that applies, 0 for none, and then what that clause does.
        (file,) = (place for place in places if place.name() == FILE_COLUMN)
        number = spark.as_column(self._clause_number(spark.is_there(file)), f"{KEY_}clause")
        numbered_pairs = spark.project(spark.seq([*scala_items(pairs.output()), number]), pairs)
        applies = number.toAttribute()
        action = self._by_clause(applies, [spark.literal(a) for a in self._acts], spark.literal(0))
        values_by_clause = [self._values(clause) or self._own for clause in self._clauses]
        values = [
            self._by_clause(applies, [of_clause[i] for of_clause in values_by_clause], own)
            for i, own in enumerate(self._own)
        ]
        return self._frame(
            self._project(numbered_pairs, [*output, spark.as_column(action, ACTION)], values)
        )

    def _project(self, below: Any, columns: Sequence[Any], values: Sequence[Any]) -> Any:
        spark = self._spark
        value_columns = [spark.as_column(value, f"{VALUE_}{i}") for i, value in enumerate(values)]
        return spark.project(spark.seq([*columns, *value_columns]), below)

    def _clause_number(self, is_matched: Any) -> Any:
        spark, true = self._spark, self._spark.literal(True)
        matched_count = self._plan.matchedClauses().size()
        branches = []
        for number, clause in enumerate(self._clauses, 1):
            condition = clause.condition()
            test = condition.get() if condition.isDefined() else true
            branches.append((test, spark.literal(number)))
        none = spark.literal(0)
        first = spark.case(branches[:matched_count], none)
        return spark.case([(is_matched, first)], spark.case(branches[matched_count:], none))

    @property
    def _acts(self) -> list[int]:
        kinds = {"Update": UPDATED, "Delete": DELETED, "Insert": INSERTED}
        return [
            next(act for word, act in kinds.items() if word in class_name(clause))
            for clause in self._clauses
        ]

    def _by_clause(self, applies: Any, values: Sequence[Any], otherwise: Any) -> Any:
        spark = self._spark
        branches = [
            (spark.equal(applies, spark.literal(number)), value)
            for number, value in enumerate(values, 1)
        ]
        return spark.case(branches, otherwise)

    def operation(self) -> Any:
        """What the commit says that it is, as Delta's own commands say it."""
        spark, condition = self._spark, self._condition
        if self.verb == "DELETE":
            return getattr(spark.operations, "DeltaOperations$Delete")(spark.seq([condition]))
        if self.verb == "UPDATE":
            return getattr(spark.operations, "DeltaOperations$Update")(spark.option(condition))
        predicate_of = singleton(spark.operations, "DeltaOperations$MergePredicate").apply
        matched_count = self._plan.matchedClauses().size()
        predicates = [predicate_of(clause) for clause in self._clauses]
        return getattr(
            spark.operations, "DeltaOperations$Merge"
        )(
            spark.option(condition),
            *(spark.option(None) for _ in range(3)),  # what older versions of Delta told
            spark.seq(predicates[:matched_count]),
            spark.seq(predicates[matched_count:]),
            spark.seq(()),
        )

    def _over(self, rows: Any, columns: Any) -> Any:
        """A plan over rows of the JVM, under columns that exist."""
        return self._spark.relation(columns, rows, False, self._spark.option(None))

    def _frame(self, plan: Any) -> DataFrame:
        return DataFrame(self._spark.frame_of(self._jsession, plan), self._session)


class _Conjuncts:
    """Reads the conjuncts of a condition, and collects the values that columns are compared with.

    Args:
        own: the table's columns. source: whether values may be of a source's columns; else they
            are constants.
    """

    def __init__(self, own: Sequence[Any], *, source: bool) -> None:
        self._names = {int(a.exprId().id()): str(a.name()) for a in own}
        self._source = source
        self.values: list[Any] = []

    def read(self, condition: Any) -> Iterator[Comparison | None]:
        """The conjuncts, in order, as they are asked for."""
        waiting = [condition]
        while waiting:
            conjunct = waiting.pop()
            kind = class_name(conjunct)
            if kind == "And":
                waiting += [conjunct.right(), conjunct.left()]
            elif kind == "EqualTo":
                left, right = self._term(conjunct.left()), self._term(conjunct.right())
                yield Comparison(left, (right,))
            elif kind == "In" and conjunct.list().size() <= KEYS_MAX:
                among = tuple(self._term(value) for value in scala_items(conjunct.list()))
                yield Comparison(self._term(conjunct.value()), among)
            else:
                yield None

    def _term(self, value: Any) -> Term:
        kind = class_name(value)
        name = self._names.get(int(value.exprId().id())) if kind == "AttributeReference" else None
        if name is not None:
            return OwnColumn(name)
        if kind != "Literal" and not (self._source and self._is_of_source(value)):
            return None
        self.values.append(value)
        return GivenValue(len(self.values) - 1)

    def _is_of_source(self, value: Any) -> bool:
        read = scala_items(value.references().toSeq())
        return not any(int(a.exprId().id()) in self._names for a in read)
