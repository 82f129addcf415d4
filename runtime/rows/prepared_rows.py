"""Computes driver-local rows from driver-local rows by a physical plan that is kept.

Two refreshes, or two runs of a task, differ only in the rows, and planning takes longer than
running. So the physical plan is kept, and its leaves are replaced by the current rows:

    recipe (how Spark makes the rows, and of what)  -- second use -->  plan over empty leaves
    plan, with LocalTableScan(rows) for each leaf   -- each use   -->  rows

A leaf is an RDD, so the optimizer sees neither its rows nor their number. A plan is kept

[same-settings] while all settings equal those that it was made with;
[definite-query] if the query returns the same for the same rows (no clock, random numbers,
    redefinable function or variable), and until it fails: parts over constants keep their error;
[only-our-leaves] if all its rows come from our leaves and from constants: a subquery or a reused
    exchange would keep the rows it was made with.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F, types as T

from ctsql.catalog.errors import DataError, Declined
from ctsql.catalog.names import backtick
from ctsql.catalog.reserved_columns import PART
from ctsql.runtime.rows.collect import FEW, NARROW, Bounds, held_of, mark_wide
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows
from ctsql.runtime.rows.types import fits_arrow
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.internals.held_rows import HELD_ROWS, physical_plan
from ctsql.runtime.spark.internals.kept_plans import (
    KEPT_PLANS,
    empty_leaf,
    find_leaves,
    fixed_columns,
    settings_now,
    with_leaves,
)
from ctsql.runtime.spark.internals.plans import reads_range
from ctsql.runtime.spark.internals.sessions import active, setting, without_code
from ctsql.runtime.spark.job_metrics import without_files
from ctsql.runtime.spark.missing import or_else
from ctsql.runtime.spark.start.session import without_merged_subqueries

PLANS_MAX = 1_000  # plans, and recipes seen once, of a session; the oldest are evicted
WITHOUT_CODE_MAX = 1_000
"""Rows of all leaves up to which no code is generated: a join may compare each with each."""
_NO_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
_WHOLE_STAGES = "spark.sql.codegen.wholeStage"
_FEW_ROWS = {
    # Its stages cost more than they save.
    "spark.sql.adaptive.enabled": "false",
    # A broadcast is a job of its own; both sides are one partition.
    _NO_BROADCAST: "-1",
    # Else rows are exchanged for a join, although both sides are one partition: the size of a leaf
    # counts as the largest there is, and that of a join as a product.
    "spark.sql.defaultSizeInBytes": "1",
    "spark.sql.maxSinglePartitionBytes": str(2**63 - 1),
    # A plan that is kept has no part that stands for another [only-our-leaves].
    "spark.sql.exchange.reuse": "false",
    # To make code for few rows takes longer than to evaluate expressions as they are.
    _WHOLE_STAGES: "false",
}
_NOT_WITH_RANGE = (
    # Without a broadcast a join with range() that compares no keys is a product, for which Spark
    # first stores all of the range.
    _NO_BROADCAST,
    _WHOLE_STAGES,
)


@dataclass(frozen=True, eq=False)
class Recipe:
    """How rows are made from others; a part used twice is computed once."""

    key: Hashable  # identifies ``build``
    parts: tuple["Recipe", ...]
    build: Callable[[Sequence[DataFrame]], DataFrame]
    leaf: LocalRows | None = None  # existing rows
    # distinguishes recipes of one key whose errors are about different texts
    origin: Hashable = None

    @cached_property
    def whole(self) -> tuple["Recipe", ...]:
        """This recipe and all its parts, each once, parts first."""
        recipes: dict[Recipe, None] = {}
        for part in self.parts:
            recipes.update(dict.fromkeys(part.whole))
        return (*recipes, self)

    @cached_property
    def leaves(self) -> tuple[LocalRows, ...]:
        """All leaves, each once."""
        leaves = {id(r.leaf): r.leaf for r in self.whole if r.leaf is not None}
        return tuple(leaves.values())

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds of its rows: ``NARROW`` if its leaves have more rows than ``FEW``."""
        return FEW if sum(leaf.row_count for leaf in self.leaves) <= FEW.rows else NARROW

    @cached_property
    def signature(self) -> Hashable:
        """Equal if the plans are: by the parts of each part, and the columns of the leaves."""
        places = {recipe: n for n, recipe in enumerate(self.whole)}
        leaves = {id(leaf): n for n, leaf in enumerate(self.leaves)}
        return tuple(
            (r.key, tuple(places[part] for part in r.parts))
            if r.leaf is None
            else (leaves[id(r.leaf)], r.leaf.signature)
            for r in self.whole
        )

    @cached_property
    def origins(self) -> tuple[Hashable, ...]:
        """The texts that its errors are about."""
        return tuple(recipe.origin for recipe in self.whole)

    @cached_property
    def frame(self) -> DataFrame:
        """The current rows, not computed yet."""
        if self.leaf is not None:
            return self.leaf.frame
        return self.build([part.frame for part in self.parts])

    def over(self, leaves: Mapping[int, DataFrame]) -> DataFrame:
        """The same with other leaves, by the ids of the replaced ones."""
        frames: dict[Recipe, DataFrame] = {}
        for recipe in self.whole:
            if recipe.leaf is not None:
                frames[recipe] = leaves[id(recipe.leaf)]
            else:
                frames[recipe] = recipe.build([frames[part] for part in recipe.parts])
        return frames[self]


def derive(
    inputs: Sequence[RowSet],
    build: Callable[[Sequence[DataFrame]], DataFrame],
    key: Hashable,
    origin: Hashable = None,
) -> RowSet:
    """The rows that Spark makes from others, of one session.

    ``key`` identifies ``build``; ``origin`` is the text, if others have the same key.
    """
    recipes = [r for r in map(_recipe, inputs) if r is not None]
    if len(recipes) < len(inputs):
        return SparkRows(build([rows.frame for rows in inputs]))
    return _PreparedRows(Recipe(key, tuple(recipes), build, origin=origin))


def together(rows: Sequence[RowSet]) -> list[LocalRows] | Declined:
    """Several sets of few rows, computed now in one job.

    Declined if the driver does not hold all that they are computed from, Arrow lacks a type, or no
    plan can be kept. A shared part is computed once for each set.
    """
    row_set = derive(rows, _side_by_side, "together")
    if isinstance(row_set, _PreparedRows):
        plans = prepared_plans(row_set.session)
        local_rows = plans.why_not_kept(row_set.recipe) or row_set.collect()
    else:
        local_rows = row_set.local
    if isinstance(local_rows, Declined):
        return local_rows
    if not fits_arrow(local_rows.schema):
        return Declined("Arrow does not hold values of these types")
    parts = local_rows.arrow.column(PART).to_pylist()
    return [
        _part(local_rows, i, [n for n, part in enumerate(parts) if part == i])
        for i in range(len(rows))
    ]


def rows_read(rows: Sequence[RowSet]) -> int:
    """The number of rows in the driver from which the rows are computed."""
    recipes = [r for r in map(_recipe, rows) if r is not None]
    leaves = {id(leaf): leaf for recipe in recipes for leaf in recipe.leaves}
    return sum(leaf.row_count for leaf in leaves.values())


def _side_by_side(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows, each set in its own columns, with the set's number; in one task."""
    parts = []
    for i, mine in enumerate(frames):
        columns = [F.lit(i).alias(PART)]
        for j, frame in enumerate(frames):
            for field in frame.schema:
                value = F.col(backtick(field.name)) if i == j else F.lit(None).cast(field.dataType)
                columns.append(value.alias(f"{j}_{field.name}", metadata=field.metadata))
        parts.append(mine.select(*columns))
    return reduce(DataFrame.unionAll, parts).coalesce(1)


def _part(rows: LocalRows, number: int, places: Sequence[int]) -> LocalRows:
    prefix = f"{number}_"
    names = [name for name in rows.schema.names if name.startswith(prefix)]
    return rows.take(places).select(names, [name.removeprefix(prefix) for name in names])


def _recipe(rows: RowSet) -> Recipe | None:
    local_rows = rows.local
    if isinstance(local_rows, LocalRows):
        return Recipe(None, (), lambda frames: frames[0], local_rows)
    return rows.recipe if isinstance(rows, _PreparedRows) else None


class _PreparedRows(RowSet):
    """Rows that Spark computes on demand from few rows in the driver."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.session = recipe.leaves[0].session
        self._outcome: LocalRows | Declined | None = None

    @property
    def is_of_few(self) -> bool:
        """False once they turned out to be many."""
        return not isinstance(self._outcome, Declined)

    @cached_property
    def schema(self) -> T.StructType:  # type: ignore[override]
        if isinstance(self._outcome, LocalRows):
            return self._outcome.schema
        plan = prepared_plans(self.session).find(self.recipe)
        return self.frame.schema if plan is None else plan.schema

    @cached_property
    def frame(self) -> DataFrame:
        if isinstance(self._outcome, LocalRows):
            return self._outcome.frame
        return self.recipe.frame

    @property
    def plain_frame(self) -> DataFrame:
        rows = self.collect()
        return self.frame if isinstance(rows, Declined) else rows.plain_frame

    @property
    def row_count(self) -> int:
        rows = self.collect()
        return self.frame.count() if isinstance(rows, Declined) else rows.row_count

    @property
    def is_empty(self) -> bool:
        rows = self.collect()
        return self.frame.isEmpty() if isinstance(rows, Declined) else rows.is_empty

    @property
    def local(self) -> LocalRows | Declined:
        return Declined("the rows are not computed yet") if self._outcome is None else self._outcome

    def collect(self) -> LocalRows | Declined:
        if self._outcome is None:
            self._outcome = prepared_plans(self.session).collect(self.recipe)
        return self._outcome

    def select(self, names: Sequence[str], new_names: Sequence[str] | None = None) -> RowSet:
        key = ("select", tuple(names), None if new_names is None else tuple(new_names))
        return derive(
            [self], lambda frames: SparkRows(frames[0]).select(names, new_names).frame, key
        )

    def where_nonzero(self, column: str) -> RowSet:
        key = ("where_nonzero", column)
        return derive([self], lambda frames: SparkRows(frames[0]).where_nonzero(column).frame, key)

    def cast(self, schema: T.StructType) -> RowSet:
        key = ("cast", schema.json())
        return derive([self], lambda frames: SparkRows(frames[0]).cast(schema).frame, key)


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A physical plan over empty leaves, and the settings that it was made under."""

    root: Any
    # the node to replace, its columns, and the place of its rows among the recipe's
    leaves: tuple[tuple[Any, Any, int], ...]
    output: Any
    schema: T.StructType
    bounds: Bounds
    is_marked: bool  # whether ``root`` ends with ``WIDE``
    settings: Any
    origins: tuple[Hashable, ...]


_SEEN = Declined("it was used once")


class PreparedPlans:
    """The plans of one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._plans: OrderedDict[Hashable, PreparedPlan | Declined] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, recipe: Recipe) -> PreparedPlan | None:
        """A recipe's kept plan, if it was made under the current settings."""
        plan = self._plans.get((recipe.signature, recipe.bounds))
        return plan if isinstance(plan, PreparedPlan) and self._is_current(plan) else None

    def why_not_kept(self, recipe: Recipe) -> Declined | None:
        """The recorded reason why no plan of a recipe is kept."""
        plan = self._plans.get((recipe.signature, recipe.bounds))
        return plan if isinstance(plan, Declined) and plan is not _SEEN else None

    def collect(self, recipe: Recipe) -> LocalRows | Declined:
        """The rows, computed now; declined when they are not few."""
        rows = self._collect(recipe, recipe.bounds)
        is_wide = recipe.bounds is NARROW and rows == NARROW.too_wide
        return self._collect(recipe, FEW) if is_wide else rows

    def _collect(self, recipe: Recipe, bounds: Bounds) -> LocalRows | Declined:
        key = (recipe.signature, bounds)
        with self._lock:
            plan = self._plans.get(key)
            self._plans[key] = plan or _SEEN
            self._plans.move_to_end(key)
            if len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
        if plan is None:
            return self.compute(recipe, bounds)
        rows = self._by_plan(key, plan, recipe, bounds)
        return self.compute(recipe, bounds) if rows is None else rows

    @or_else(lambda *_: None, KEPT_PLANS, HELD_ROWS)
    def _by_plan(
        self, key: Hashable, plan: PreparedPlan | Declined, recipe: Recipe, bounds: Bounds
    ) -> LocalRows | Declined | None:
        """The rows by the kept plan, which may be made now; None if none can be."""
        with active(self._session), translate_spark_errors():
            if isinstance(plan, PreparedPlan) and not self._is_current(plan):
                plan = _SEEN
            if plan is _SEEN:
                plan = self._plans[key] = self._prepare(recipe, bounds)
            return self._run_kept(key, plan, recipe) if isinstance(plan, PreparedPlan) else None

    def _run_kept(
        self, key: Hashable, plan: PreparedPlan, recipe: Recipe
    ) -> LocalRows | Declined | None:
        """The rows of a kept plan, which is dropped if it fails.

        None if it fails on a row and was made from another text: the recipe itself then has the
        error.
        """
        try:
            return self._run(plan, recipe)
        except BaseException as problem:
            self._plans.pop(key, None)
            # The place of an error on a row is in the text that the plan was made of.
            if isinstance(problem, DataError) and plan.origins != recipe.origins:
                return None
            raise

    def _is_current(self, plan: PreparedPlan) -> bool:
        return bool(settings_now(self._session) == plan.settings)

    def compute(self, recipe: Recipe, bounds: Bounds = FEW) -> LocalRows | Declined:
        """The rows, computed now by a plan that is not kept; declined when they are not few."""
        rows = recipe.frame
        has_range = reads_range(rows)
        code = nullcontext() if has_range else self._code_for(recipe)
        with self._for_few_rows(has_range=has_range), code:
            return SparkRows(rows).collect(bounds)

    def _code_for(self, recipe: Recipe) -> AbstractContextManager[None]:
        """No code generation if the leaves have few rows.

        Rows that are read at two places count twice: they may be compared with each other.
        """
        are_few = sum(r.leaf.row_count for r in recipe.whole if r.leaf) <= WITHOUT_CODE_MAX
        return without_code(self._session) if are_few else nullcontext()

    @contextmanager
    def _for_few_rows(self, *, has_range: bool) -> Iterator[None]:
        """Planning settings for a query over few rows; Spark plans when it runs."""
        with ExitStack() as stack:
            for name, value in _FEW_ROWS.items():
                if has_range and name in _NOT_WITH_RANGE:
                    continue
                stack.enter_context(setting(self._session, name, value))
            # Two totals of the same rows would be one subquery; a plan with one is not kept.
            stack.enter_context(without_merged_subqueries(self._session))
            yield

    def _prepare(self, recipe: Recipe, bounds: Bounds) -> PreparedPlan | Declined:
        """A recipe's plan over empty leaves; declined if it cannot be kept."""
        settings = settings_now(self._session)
        empty = [empty_leaf(self._session, leaf.in_jvm.output) for leaf in recipe.leaves]
        rows = recipe.over(
            {id(leaf): frame for leaf, (frame, _) in zip(recipe.leaves, empty, strict=True)}
        )
        with self._for_few_rows(has_range=reads_range(rows)):
            output = fixed_columns(rows)
            if output is None:
                return Declined("the query may give other rows for the same rows")
            marked_rows = mark_wide(rows, bounds)
            if isinstance(marked_rows, Declined):
                return marked_rows
            if marked_rows is not rows and not fits_arrow(rows.schema):
                return Declined("Arrow does not hold values of these types")
            root = physical_plan(marked_rows.limit(bounds.rows + 1))
        places = {number: place for place, (_, number) in enumerate(empty)}
        leaves = find_leaves(root, places)
        if isinstance(leaves, str):
            return Declined(leaves)
        return PreparedPlan(
            root=root,
            leaves=tuple(leaves),
            output=output,
            schema=rows.schema,
            bounds=bounds,
            is_marked=marked_rows is not rows,
            settings=settings,
            origins=recipe.origins,
        )

    def _run(self, plan: PreparedPlan, recipe: Recipe) -> LocalRows | Declined:
        rows_of = recipe.leaves
        leaves = ((node, columns, rows_of[i].in_jvm.rows) for node, columns, i in plan.leaves)
        root = with_leaves(self._session, plan.root, leaves)
        with without_files(self._session), self._code_for(recipe):
            in_jvm = held_of(
                self._session,
                root,
                plan.output,
                plan.schema,
                plan.bounds,
                is_marked=plan.is_marked,
            )
        if isinstance(in_jvm, Declined):
            return in_jvm
        return LocalRows(self._session, plan.schema, in_jvm=in_jvm)


@lru_cache(maxsize=16)
def prepared_plans(session: SparkSession) -> PreparedPlans:
    """The plans of a session."""
    return PreparedPlans(session)
