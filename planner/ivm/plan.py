"""The change plan of a query: the queries that update a stored view after changes of its tables.

A plan is made once for a query. At each refresh it returns queries for the set of changed tables,
without the terms of unchanged ones. The queries list the relations that they read, under names
chosen by the caller: this module does not know where relations are stored. They read

- a table before (``old``) and after (``new``), and its change (``delta``): the columns that the
  plan reads and ``__ct_diff``, the copies added (or removed, if negative). The change should be
  consolidated over just these columns: changes of other columns then cancel;
- no rows of a table (``none``), where only the types of its columns matter;
- a step: the rows of an earlier query of the same refresh, under their own column names;
- a state table (the stored groups of an aggregate) and the view's stored rows, both before.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ctsql.catalog.errors import Declined
from ctsql.planner.ivm.algebra.nodes import DIFF, Aggregate, Node, Scan, Temporal
from ctsql.planner.ivm.algebra.reasons import Refusal
from ctsql.planner.ivm.algebra.traversal import descend, free, numbers_above, replace_nodes
from ctsql.planner.ivm.parse.from_relations import QueryRelation
from ctsql.planner.ivm.parse.query import compile_query
from ctsql.planner.ivm.rewrites.column_pruning import prune
from ctsql.planner.ivm.rewrites.exactness import inexact, sums_in
from ctsql.planner.ivm.rewrites.lookups import cut_by_others
from ctsql.planner.ivm.rules import change
from ctsql.planner.ivm.rules.context import DeltaDerivation, RuleUse
from ctsql.planner.ivm.rules.counting import StatePlan, initial, stored_groups
from ctsql.planner.ivm.sql.queries import (
    ChangeTexts,
    FirstRowsTest,
    KeyedTexts,
    StateSteps,
    StepText,
    Text,
    TopTexts,
)
from ctsql.planner.ivm.strategies import state_table
from ctsql.planner.ivm.strategies.compare_groups import compared_groups, compared_rows, widen
from ctsql.planner.ivm.strategies.state_table import state_tables
from ctsql.planner.ivm.strategies.stored_view import desired_rows, first_rows, keyed_top, limit_top
from ctsql.planner.ivm.temporal import ClockWindow, split_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The plan by which a view follows its tables."""

    query: Node  # the query as nodes, without unneeded columns
    columns: tuple[str, ...]  # the view's column names
    # the columns that the query reads, for each table. Changes of other columns do not matter; of a
    # table without columns here, the number of its rows is read.
    reads: Mapping[str, tuple[str, ...]]
    states: tuple[StatePlan, ...]  # state tables that can be used
    # why the former result of the topmost operator cannot be computed again: then there is no
    # signed change without the stored rows; else None.
    inexact: Declined | None
    # tables of the plan that are windows of a table, by name.
    windows: Mapping[str, ClockWindow] = field(default_factory=dict)

    def normal(self) -> Text:
        """The whole query, printed from the nodes.

        Before the first run Spark's plans of this text and the user's are compared, so that a
        misread query cannot become a wrong change.
        """
        return self._final(self.query, signed=False)

    def delta(
        self,
        changed_tables: Collection[str],
        states: Collection[int] = (),
        *,
        large: Collection[str] = (),
    ) -> ChangeTexts | None:
        """The queries of the signed change; None if the view cannot change.

        Args:
            changed_tables: the tables with a change that is not empty. states: the numbers of
                usable state tables; they hold the groups before. large: tables with a change so
                large that a step to reduce it is worthwhile.

        Raises:
            ValueError: there is no signed change; see :attr:`inexact`.
        """
        if self.inexact is not None:
            raise ValueError(f"no signed change: {self.inexact.reason}")
        changes = self._changes(changed_tables, states, large=large)
        change = changes.of(self.query)
        return None if change is None else self._with_states(changes, change, signed=True)

    def _with_states(self, changes: DeltaDerivation, rows: Node, *, signed: bool) -> ChangeTexts:
        final = self._final(rows, signed=signed)
        return ChangeTexts(steps=_steps(changes), rows=final, states=_states(changes))

    @property
    def readings(self) -> int:
        """The number of places at which the query reads a table: a change has a part for each."""
        return sum(isinstance(below, Scan) for below in descend(self.query))

    @property
    def kept_state(self) -> StatePlan | None:
        """The state table that is useful for the view; None if none is."""
        is_usable = self.inexact is None or self.is_limited
        return state_table.kept_state(self.query) if is_usable else None

    @property
    def is_limited(self) -> bool:
        """Whether the view holds the first rows of a larger result."""
        return limit_top(self.query) is not None

    @property
    def compares_groups(self) -> bool:
        """Whether the view compares groups with one another."""
        return bool(compared_groups(self.query))

    @property
    def reads_all_groups(self) -> bool:
        """Whether :meth:`rows_from_groups` can compute the view from all groups."""
        return self.is_limited or self.compares_groups

    def rows_from_groups(
        self,
        changed_tables: Collection[str],
        states: Collection[int],
        *,
        large: Collection[str] = (),
    ) -> ChangeTexts | None:
        """The queries of all rows, unsigned, from a state table's groups; None without a change.

        The rows are the first groups (ORDER BY .. LIMIT), or the result of comparing groups.
        """
        changes = self._changes(changed_tables, states, large=large)
        rows = state_table.rows_from_groups(self.query, changes)
        return None if rows is None else self._with_states(changes, rows, signed=False)

    def rows_by_key(
        self, changed_tables: Collection[str], *, large: Collection[str] = ()
    ) -> KeyedTexts | None:
        """The queries by which the affected keys of the view are replaced.

        None if the topmost operator has no key that the view shows, or nothing changed. ``large``:
        as for :meth:`delta`.
        """
        top = keyed_top(self.query)
        if top is None or (self.inexact is None and None in top.places):
            return None  # the signed change has more precise keys
        changes = self._changes(changed_tables, large=large)
        desired = desired_rows(top, changes)
        if desired is None:
            return None
        node, step, places = desired
        return KeyedTexts(
            steps=_steps(changes),
            rows=self._final(node, signed=False),
            keys=step.name,
            pairs=tuple((self.columns[i], col.sql) for i, col in places),
        )

    def first_rows(
        self,
        changed_tables: Collection[str],
        states: Collection[int] = (),
        *,
        large: Collection[str] = (),
    ) -> TopTexts | None:
        """The queries that maintain ORDER BY .. LIMIT from the view's own rows, if possible.

        ``states``, ``large``: as for :meth:`delta`; only changed groups of states are read.
        """
        limit = limit_top(self.query)
        if limit is None:
            return None
        changes = self._changes(changed_tables, states, large=large)
        parts = first_rows(self.query, limit, self.columns, changes)
        if parts is None:
            return None
        node, step, stored_rows = parts
        return TopTexts(
            steps=_steps(changes),
            rows=self._final(node, signed=False),
            holds=FirstRowsTest(_whole(step), _whole(stored_rows), limit),
            states=_states(changes),
        )

    def initial_state(self, number: int) -> Text:
        """The query that fills a state table from all rows."""
        node, state = self._aggregate(number)
        groups = initial(node, state, numbers_above(self.query))
        return Text(node=groups, columns=groups.columns, names=state.columns)

    def of_state(self, number: int) -> Text:
        """The query of all rows of the view, from a state table with all groups."""
        node, _ = self._aggregate(number)
        rows = stored_groups(node, self._changes((), [number]))
        assert rows is not None  # this is its state table
        return self._final(replace_nodes(self.query, {node: rows}), signed=False)

    def rules(self) -> Mapping[Node, RuleUse]:
        """The rule of each operator, with the state table, if any."""
        state = self.kept_state
        states = [] if state is None else [state.number]
        changes = self._changes(self.reads, states)
        if states and compared_groups(self.query):
            compared_rows(self.query, changes)
        elif self.inexact is None:
            changes.of(self.query)
        else:
            top, limit = keyed_top(self.query), limit_top(self.query)
            if limit is not None:
                first_rows(self.query, limit, self.columns, changes)
            elif top is not None:
                desired_rows(top, changes)
        return changes.rules

    def former_sums(self) -> tuple[Text, ...]:
        """The sums whose former results are computed again, averages included.

        Excluded are those of a topmost operator whose keys the view shows, and of correlated
        subqueries.
        """
        top = keyed_top(self.query)
        above = None if top is None or None in top.places else top.operator
        operators = (n for n in descend(self.query) if n is not above and not free(n))
        found = map(sums_in, operators)
        return tuple(
            Text(node=node, columns=columns, names=tuple(c.sql for c in columns))
            for node, columns in found
            if columns
        )

    def _changes(
        self,
        changed_tables: Collection[str],
        states: Collection[int] = (),
        *,
        large: Collection[str] = (),
    ) -> DeltaDerivation:
        tables = state_tables(self.query)
        numbers = {n: s.number for n, s in tables if s.number in states}
        above = numbers_above(self.query)
        return DeltaDerivation(changed_tables, above, change, numbers.get, large=large)

    def _aggregate(self, number: int) -> tuple[Aggregate, StatePlan]:
        return {s.number: (n, s) for n, s in state_tables(self.query)}[number]

    def _final(self, node: Node, *, signed: bool) -> Text:
        names = (*self.columns, DIFF.sql) if signed else self.columns
        columns = (*self.query.columns, DIFF) if signed else self.query.columns
        return Text(node=cut_by_others(node), columns=columns, names=names)


def _states(changes: DeltaDerivation) -> dict[int, StateSteps]:
    used = {}
    for number, (after, before) in changes.groups.items():
        keys, pairs = changes.state_keys.get(number, (None, ()))
        used[number] = StateSteps(before=before.name, after=after.name, keys=keys, pairs=pairs)
    return used


def _whole(node: Node) -> Text:
    return Text(node=node, columns=node.columns, names=tuple(c.sql for c in node.columns))


def _steps(changes: DeltaDerivation) -> tuple[StepText, ...]:
    return tuple(
        StepText(
            name=s.name,
            role=s.role,
            rows=_whole(cut_by_others(s.node)),
            must_be_stored=s.must_be_stored,
        )
        for s in changes.steps
    )


def change_plan(
    sql: str, relations: Mapping[str, QueryRelation], columns: Sequence[str] = ()
) -> ChangePlan | Declined:
    """The change plan of a query, or the reason why there is none.

    Args:
        sql: the query's text. relations: by the name as typed (``t`` or ``s.t``, in any case), a
            table's columns or a plain view. columns: the view's; by default the query's own.
    """
    try:
        node, names = compile_query(sql, relations)
    except Refusal as refusal:
        return refusal.declined
    except RecursionError:
        return Declined("TEXT_NOT_READ")
    node, windows = split_windows(node)
    if any(isinstance(below, Temporal) for below in descend(node)):
        return Declined("CLOCK_ABOVE_TABLE")
    node = widen(prune(node, node.columns), node)
    inexact_nodes = list(inexact(node))
    reason = None
    if inexact_nodes:
        top = keyed_top(node)
        top_nodes = (None if top is None else top.operator, limit_top(node))
        reasons = [why for below, why in inexact_nodes if below not in top_nodes]
        if reasons or len(inexact_nodes) > 1:
            return (reasons or [why for _, why in inexact_nodes])[0]
        reason = inexact_nodes[0][1]
    states = tuple(state for _, state in state_tables(node))
    column_names = tuple(columns) or _unique(names)
    if len(column_names) != len(node.columns):
        return Declined("UNKNOWN_COLUMN")  # ``*`` now has fewer or more columns
    return ChangePlan(
        query=node,
        columns=column_names,
        reads=_reads(node),
        states=states,
        inexact=reason,
        windows=windows,
    )


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    tables: list[str] = []
    for index, name in enumerate(names, 1):
        is_taken = not name or name.lower() in {n.lower() for n in tables}
        tables.append(f"c{index}" if is_taken else name)
    return tuple(tables)


def _reads(node: Node) -> dict[str, tuple[str, ...]]:
    columns_of: dict[str, dict[str, None]] = {}
    for below in descend(node):
        if isinstance(below, Scan):
            columns_of.setdefault(below.table, {}).update(dict.fromkeys(below.names))
    return {table: tuple(columns_of[table]) for table in sorted(columns_of)}
