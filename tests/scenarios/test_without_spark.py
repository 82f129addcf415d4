"""The scenarios once more, in this process: a store in memory, and DuckDB in the place of Spark.

Parser, binder, planner, lowering, catalog, timeline and sinks are the product's own. What DuckDB is
asked is in ``without_spark/``. A scenario that needs more than that is listed here, with why.
"""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.planner.binding import task as binding
from ctsql.planner.lowering import transaction as lowering
from ctsql.runtime.log.table_changes import StoredVersion
from ctsql.runtime.statements.definitions import task_replacement
from ctsql.runtime.tasks import runs, sink as tasks
from ctsql.runtime.warehouse.schedules import Schedules
from ctsql.runtime.warehouse.versions import Versions
from tests.scenarios.runner import Connect, play
from tests.scenarios.scenario_text import Scenario
from tests.scenarios.test_scenarios import SCENARIOS
from tests.scenarios.without_spark.connection import DuckConnection, spark_left_out
from tests.scenarios.without_spark.tables import Warehouses

OF_TABLES = "Delta's own statements keep constraints of tables"
OF_KEYS = "keys are looked up in Delta's files, or by Spark"
PLANS = "it is told by what Spark's optimizer leaves of a plan"
SYSTEM = "rows of system tables are given to Spark"
NEEDS_SPARK = {
    "constraints_of_tables": OF_TABLES,
    "fail_of_keys_of_views": SYSTEM,
    "keys_of_tasks_and_views": OF_KEYS,
    "names_quoted_and_in_any_case": "DuckDB knows no other case of letters beyond ASCII",
    "replaced_tables": OF_TABLES,
    "replaced_plain_views": PLANS,
    "replacement_with_a_quarantine": SYSTEM,
    "not_in_over_columns_that_are_not_null": OF_TABLES,
    "rows_changed_by_key": "MERGE into a table",
    "wrong_names_in_merges": "MERGE into a table",
    "tables_with_defaults": "Delta computes defaults",
    "views_with_other_columns": PLANS,
    "task_begins_with_the_rows_of_a_table": OF_KEYS,
}
"""By name why it cannot run here."""
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.fixture(autouse=True)
def _no_spark() -> Iterator[None]:
    with (
        spark_left_out(),
        mock.patch.object(task_replacement, "check_history"),  # no file is ever removed here
    ):
        yield


def _warehouse() -> Connect:
    """Opens connections on a new warehouse in memory."""
    store = Warehouses()
    return lambda: DuckConnection(store)


def test_all_that_needs_spark_is_a_scenario() -> None:
    """The list names files."""
    assert not NEEDS_SPARK.keys() - BY_NAME.keys()


@pytest.mark.parametrize(
    "scenario", [s for s in SCENARIOS if s.name not in NEEDS_SPARK], ids=lambda s: s.name
)
def test_scenario(scenario: Scenario) -> None:
    """Every step does what it says, without a JVM."""
    play(scenario, _warehouse())


def _deletes_only_stored(view: Any, rows: Any, alias: str, where: Any, *, keep: bool) -> Any:
    return rows if keep else _MATCH(view, rows, alias, where, keep=keep)


def _reads_no_snapshot_option(statement: Any, name: str) -> Any:
    return None if name == "SNAPSHOT" else _OPTION(statement, name)


def _newest(versions: Versions, item: Any, at: int) -> StoredVersion:
    return StoredVersion(versions._relations.table(item).version())


_MATCH, _OPTION = lowering.matching_rows, binding.option_of
PLANTED: dict[str, tuple[tuple[object, str, Any], str]] = {
    "an option is not read": (
        (binding, "option_of", _reads_no_snapshot_option),
        "snapshot_false_then_changes",
    ),
    "a DELETE does not see what was proposed before it": (
        (lowering, "matching_rows", _deletes_only_stored),
        "delete_after_insert_and_the_new_rows",
    ),
    "the last due time is left out": (
        (tasks, "due_runs", lambda *of, **span: runs.due_runs(*of, **span)[:-1]),
        "maximum_per_batch",
    ),
    "rows are read as they are now, not as of T": (
        (Versions, "find_storage", _newest),
        "references_as_of_each_change",
    ),
    "a view does not know when it changes": (
        (Schedules, "change_times", lambda *_, **__: set()),
        "mv_follows_inserts_and_deletes",
    ),
    "nobody reads an object": (
        (Catalog, "readers", lambda *_, **__: []),
        "refuse_dropping_a_reference",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_seen(name: str) -> None:
    """A scenario that runs here fails where the product is wrong."""
    mistake, scenario = PLANTED[name]
    noticed = (AssertionError, pytest.fail.Exception)
    with mock.patch.object(*mistake), pytest.raises(noticed):
        play(BY_NAME[scenario], _warehouse())
