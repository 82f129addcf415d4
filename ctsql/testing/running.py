"""Runs one test: its steps, each a commit at its T, then its expectations, each as of a T.

Nothing is advanced between the steps: what an object holds as of a T does not depend on when it is
read, so all expectations are checked at the end.
"""

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, types as T

from ctsql.api import Connection
from ctsql.catalog import times
from ctsql.catalog.errors import CtsqlError, Declined, Error, StatementError
from ctsql.catalog.spans import Span
from ctsql.planner.folder import Folder
from ctsql.planner.lowering.context import Context
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.nodes import NormalReference, Query
from ctsql.planner.syntax import ast as st
from ctsql.planner.testing import STEP_MS, TestPlan, at_time, plan_test, typed_values
from ctsql.runtime.engine import Engine, read_objects
from ctsql.runtime.log import clock
from ctsql.runtime.rows.row_set import LocalRows, RowSet, SparkRows
from ctsql.runtime.spark.failures.errors import is_lost
from ctsql.runtime.statements.dml.dml import write_source
from ctsql.runtime.statements.dml.transaction import OpenTransaction
from ctsql.runtime.statements.objects.name_resolution import Namespace
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.testing.comparing import ColumnTypes, Difference, compare
from ctsql.testing.warehouses import Warehouses, forget_tables


@dataclass(frozen=True, slots=True)
class Case:
    """A TEST statement, and the schema of its unqualified names."""

    test: st.Test
    schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One failed expectation or step, at a place in the test."""

    span: Span
    message: str  # one line
    difference: Difference | None = None  # of rows
    problem: Error | None = None  # its error, if any


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a test; it passed if nothing failed."""

    case: Case
    failures: tuple[Mismatch, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failures


def run_case(case: Case, folder: Folder, warehouses: Warehouses) -> Outcome:
    """Run a test; raises if the run was cancelled or Spark is gone. Other errors are failures."""
    start = time.monotonic()
    failures: list[Mismatch] = []
    try:
        plan = plan_test(case.test, case.schema, folder)
        failures = list(_run(plan, warehouses))
    except CtsqlError as problem:
        if problem.condition == "STATEMENT_CANCELLED" or is_lost(problem):
            raise
        span = problem.span or case.test.name_span
        failures.append(Mismatch(span=span, message="the test cannot be run", problem=problem))
    return Outcome(case=case, failures=tuple(failures), seconds=time.monotonic() - start)


def _run(plan: TestPlan, warehouses: Warehouses) -> Iterator[Mismatch]:
    template = warehouses.template(plan)
    path = warehouses.copy(template)
    connection = warehouses.connection
    connection._move_to(str(path))
    try:
        with connection._running(f"test {plan.test.name}") as engine:
            try:
                running = RunningTest(connection, engine, plan, before=template.time)
                running.write()
                yield from running.unexpected()
                if not running.stopped:
                    yield from running.check()
            finally:
                forget_tables(engine)
    finally:
        shutil.rmtree(path, ignore_errors=True)


@dataclass(slots=True)
class RunningTest:
    """A test in its warehouse."""

    connection: Connection
    engine: Engine
    plan: TestPlan
    before: int  # the T before the first step
    times: list[int] = field(default_factory=list)  # the T of each step
    # the errors of steps that could not be committed, by number from 1.
    refusals: dict[int, CtsqlError] = field(default_factory=dict)
    stopped: bool = False

    # ---- steps

    def write(self) -> None:
        """Run the steps, up to the first unexpected failure."""
        if not self.plan.step_times:
            with clock.standing(self._last):
                self.engine.mint_fresh()
        for number, step in enumerate(self.plan.test.steps, start=1):
            at = self.plan.step_times[number - 1]
            # Other bindings on the way (a due refresh, an intent) get earlier Ts.
            with clock.standing(at - 1):
                try:
                    self._write(step, at)
                except CtsqlError as problem:
                    if problem.condition == "STATEMENT_CANCELLED":
                        raise
                    self.refusals[number] = problem
                    if not self._may_be_refused(number):
                        self.stopped = True
                        return
            with clock.standing(at):
                newest = self.engine.mint()
                # Time passes even if nothing was written.
                self.times.append(newest if newest >= at else self.engine.mint_fresh())

    def _write(self, step: st.TestStep, at: int) -> None:
        engine, schema = self.engine, self.plan.schema
        changes = [replace(change, text=at_time(change.text, at)) for change in step.changes]
        if len(changes) == 1:
            write_source(engine, changes[0], schema, (), within=None)
        elif changes:
            with OpenTransaction(engine, engine.mint()) as transaction:
                for change in changes:
                    write_source(engine, change, schema, (), within=transaction)

    def _may_be_refused(self, number: int) -> bool:
        return any(
            isinstance(e, st.ExpectError) and e.subject is None and e.after in (None, number)
            for e in self.plan.test.expectations
        )

    def unexpected(self) -> Iterator[Mismatch]:
        """The failure of the step that ended the test."""
        if self.stopped:
            number, problem = next(reversed(self.refusals.items()))
            step = self.plan.test.steps[number - 1]
            message = f"step {number} is refused"
            yield Mismatch(span=problem.span or step.span, message=message, problem=problem)

    # ---- expectations

    @property
    def _last(self) -> int:
        return self.times[-1] if self.times else self.plan.made_at + STEP_MS

    def _time(self, after: int | None) -> int:
        """The T as of which an expectation is checked."""
        if after is None:
            return self._last
        return self.times[after - 1] if after else self.before

    def check(self) -> Iterator[Mismatch]:
        """The failed expectations."""
        with clock.standing(self._last):
            for expectation in self.plan.test.expectations:
                match expectation:
                    case st.ExpectRows():
                        failure = self._check_rows(expectation)
                    case st.ExpectNoChange():
                        failure = self._check_no_change(expectation)
                    case st.ExpectError():
                        failure = self._check_error(expectation)
                    case _:
                        raise TypeError(f"no expectation: {type(expectation).__name__}")
                if failure is not None:
                    yield failure

    def _rows(self, query: st.SqlText, at: int) -> RowSet:
        """The rows of a query as :meth:`_read` has them; all of a small table without a job."""
        bound = self._advance(query, at)
        near: LocalRows | Declined = Declined("it is more than a relation")
        if query.relations and query == st.rows_of(query.relations[0]):
            (node,) = bound.relations
            if isinstance(node, NormalReference):
                near = StoredSources(self.engine.warehouse).local_rows(node.object_id, at)
        return SparkRows(self._lower(bound, at)) if isinstance(near, Declined) else near

    def _read(self, query: st.SqlText, at: int) -> DataFrame:
        """The rows of a query as of a bound T; nothing is committed after it."""
        return self._lower(self._advance(query, at), at)

    def _advance(self, query: st.SqlText, at: int) -> Query:
        """Bind a query, and advance what it reads to a T."""
        engine = self.engine
        bound = self._bind(query, at)
        engine.advance([engine.relations.item(i) for i in read_objects(bound)], at)
        return bound

    def _lower(self, query: Query, at: int) -> DataFrame:
        engine = self.engine
        sources = StoredSources(engine.warehouse, as_now=True)
        rows = engine.external_rows(query.relations)
        return lower_query(query, Context(engine.session, sources, at, clock_at=at), rows)

    def _bind(self, query: st.SqlText, at: int) -> Query:
        names = Namespace(self.engine, self.plan.schema)
        return names.binder().bind_select(st.Select(span=query.span, query=at_time(query, at)))

    def _expected(
        self, expectation: st.ExpectRows, schema: T.StructType, at: int
    ) -> DataFrame | None:
        rows = expectation.rows
        if rows is None:
            return None
        target = ColumnTypes.of(schema)
        if rows.relations:
            return target.of_query(self._read(rows, at), rows.span)
        text = at_time(rows, at)  # copied texts included
        for row in expectation.cells:
            place = Span(row[0].source, row[0].start, row[-1].stop)
            target.check_count(len(row), place)
        if expectation.cells:
            text = typed_values(text, expectation.cells, target.types, target.text_types)
        values = self._read(text, at)
        return target.of_values(values) if expectation.cells else target.of_query(values, rows.span)

    def _check_rows(self, expectation: st.ExpectRows) -> Mismatch | None:
        at = self._time(expectation.after)
        place = expectation.span if expectation.rows is None else expectation.rows.span
        what = expectation.query.span.text
        try:
            there = self._rows(expectation.query, at)
            rows = self._expected(expectation, there.schema, at)
            difference = compare(there, rows, is_ordered=expectation.is_ordered, span=place)
        except CtsqlError as problem:
            return self._not_read(expectation, what, problem)
        if difference is None:
            return None
        message = f"{what} has other rows{self._when(expectation.after)}"
        if difference.is_order:
            message = f"{what} has its rows in another order{self._when(expectation.after)}"
        elif expectation.rows is None:
            message = f"{what} has rows{self._when(expectation.after)}"
        return Mismatch(span=expectation.span, message=message, difference=difference)

    def _check_no_change(self, expectation: st.ExpectNoChange) -> Mismatch | None:
        number = len(self.plan.step_times) if expectation.after is None else expectation.after
        query = st.rows_of(expectation.subject)
        what = expectation.subject.span.text
        try:
            before = self._rows(query, self._time(number - 1))
            there = self._rows(query, self._time(number))
            difference = compare(there, before)
        except CtsqlError as problem:
            return self._not_read(expectation, what, problem)
        if difference is None:
            return None
        message = f"step {number} changes {what}"
        return Mismatch(span=expectation.span, message=message, difference=difference)

    def _not_read(self, expectation: st.Expectation, what: str, problem: CtsqlError) -> Mismatch:
        if problem.condition == "STATEMENT_CANCELLED":
            raise problem
        inside = isinstance(problem, StatementError) and problem.span is not None
        span = problem.span if inside and problem.span is not None else expectation.span
        message = f"{what} cannot be compared{self._when(expectation.after)}"
        return Mismatch(span=span, message=message, problem=problem)

    def _when(self, after: int | None) -> str:
        if after == 0:
            return " before the first step"
        number = len(self.plan.step_times) if after is None else after
        if not number:
            return ""
        return f" after step {number}, at {times.to_iso(self._time(after))}"

    # ---- errors

    def _check_error(self, expectation: st.ExpectError) -> Mismatch | None:
        errors = (
            self._errors_in(expectation)
            if expectation.subject
            else [p for n, p in self.refusals.items() if expectation.after in (None, n)]
        )
        if any(_is_as_expected(problem, expectation) for problem in errors):
            return None
        description = expectation.condition
        if expectation.like is not None:
            description += f" like '{expectation.like}'"
        if errors:
            message = f"{description} was expected, not this error{self._when(expectation.after)}"
            return Mismatch(span=expectation.span, message=message, problem=errors[0])
        if expectation.subject is not None:
            what = expectation.subject.span.text
            message = (
                f"{description} was expected, but {what} can be read{self._when(expectation.after)}"
            )
        else:
            step = "no step" if expectation.after is None else f"step {expectation.after}"
            is_one = expectation.after is not None
            message = f"{description} was expected, but {step} is {'not ' if is_one else ''}refused"
            message += "; for an error of an object type EXPECT ERROR ... IN x"
        return Mismatch(span=expectation.span, message=message)

    def _errors_in(self, expectation: st.ExpectError) -> list[CtsqlError]:
        assert expectation.subject is not None  # the caller has checked
        try:
            compare(
                self._rows(st.rows_of(expectation.subject), self._time(expectation.after)), None
            )
        except CtsqlError as problem:
            if problem.condition == "STATEMENT_CANCELLED":
                raise
            return [problem]
        return []


def _is_as_expected(problem: CtsqlError, expectation: st.ExpectError) -> bool:
    """Whether an error, or one of its causes, is the expected one."""
    error: BaseException | None = problem
    while error is not None:
        if isinstance(error, CtsqlError) and error.condition == expectation.condition:
            text = "\n".join(filter(None, (error.message, error.detail)))
            return expectation.like is None or _is_like(text, expectation.like)
        error = error.__cause__
    return False


def _is_like(text: str, pattern: str) -> bool:
    r"""Match as LIKE does: % is any text, _ any character, a backslash escapes them.

    >>> _is_like("division by zero", "%by zero"), _is_like("a_b", r"a\_b"), _is_like("axb", r"a\_b")
    (True, True, False)
    """
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(p) or re.escape(p[-1] if len(p) > 1 else p) for p in parts)
    return re.fullmatch(regex, text, re.DOTALL) is not None
