"""What dbt-ctsql has beyond dbt's own tests: tasks, flows, runs that change nothing, one commit."""

from typing import Any

import pytest
from dbt.tests.util import get_connection, run_dbt, run_dbt_and_capture, write_file

TASK = """
{{ config(materialized='continual_task') }}
on input {{ source('raw', 'events') }} as (
    delete from {{ this }} where k in (select k from {{ source('raw', 'events') }});
    insert into {{ this }} select k, max(v) as v from {{ source('raw', 'events') }} group by k;
)
"""
VIEW = "select k, v + 1 as next from {{ ref('newest') }}"
MATERIALIZED = """
{{ config(materialized='materialized_view', refresh_policy='auto', contract={'enforced': true}) }}
select count(*) as n, sum(next) as total from {{ ref('plain') }}
"""
HISTORY = """
{{ config(materialized='auto_cdc') }}
from stream({{ source('raw', 'events') }}) keys (k) sequence by n stored as scd type 2
"""
REPLACED = """
{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by='k') }}
select nullif(k, 2) as k, v from {{ source('raw', 'events') }}
{% if is_incremental() %} where k = 2 {% endif %}
"""
RIGHTS = "{{ config(grants={'select': ['ann']}) }} select 1 as one"
PROPERTIES = """
sources:
  - name: raw
    schema: "{{ target.schema }}"
    tables:
      - name: events
        config: {freshness: {warn_after: {count: 1, period: hour}}}
models:
  - name: totals
    columns:
      - {name: n, data_type: bigint, constraints: [{type: check, expression: "n < 100"}]}
      - {name: total, data_type: bigint, constraints: [{type: unique}]}
"""


def rows(project: Any, sql: str) -> list[tuple[Any, ...]]:
    return project.run_sql(sql.replace("SCHEMA", project.test_schema), fetch="all")


def commits(project: Any, name: str) -> int:
    with get_connection(project.adapter) as connection:
        place = f"{project.test_schema}.{name}"
        connection.handle.execute(f"SELECT count(*) FROM {place}")  # a read gives each commit its T
        return len(connection.handle.commits(place))


class TestProject:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "newest.sql": TASK,
            "plain.sql": VIEW,
            "totals.sql": MATERIALIZED,
            "history.sql": HISTORY,
            "replaced.sql": REPLACED,
            "rights.sql": RIGHTS,
            "raw.yml": PROPERTIES,
        }

    @pytest.fixture(scope="class", autouse=True)
    def events(self, project):
        project.run_sql("create table {schema}.events (k int, v int, n int)")
        project.run_sql("insert into {schema}.events values (1, 10, 1), (2, 20, 1), (2, 5, 2)")
        run_dbt(["run", "--exclude", "rights"])

    def test_rows(self, project):
        """Each model has the rows of its definition."""
        assert rows(project, "select * from SCHEMA.newest order by k") == [(1, 10), (2, 20)]
        assert rows(project, "select n, total from SCHEMA.totals") == [(2, 32)]
        current = "select k, v from SCHEMA.history where __END_AT is null order by k"
        assert rows(project, current) == [(1, 10), (2, 5)]

    def test_second_run_changes_nothing(self, project):
        """The same definitions over the same rows: no commit of an object, and no new T."""
        with get_connection(project.adapter) as connection:
            before = connection.handle.now()
        names = ["newest", "plain", "totals", "history"]
        results = run_dbt(["run", "--select", *names])
        messages = {r.node.name: r.message for r in results}
        assert messages["newest"] == "CREATE CONTINUAL TASK (unchanged)"
        assert messages["plain"] == "CREATE VIEW (unchanged)"
        assert messages["history"] == "CREATE FLOW (unchanged)"
        with get_connection(project.adapter) as connection:
            assert connection.handle.now() == before

    def test_contract_of_a_view(self, project):
        """Constraints of a contract are those of the materialized view."""
        found = rows(project, "show constraints for SCHEMA.totals")
        assert {row[2] for row in found} == {"n_check", "total_unique"}

    def test_partitions_are_replaced_in_one_commit(self, project):
        """Readers see the old rows of a partition or the new ones, also of the partition NULL."""
        before = commits(project, "replaced")
        project.run_sql("insert into {schema}.events values (1, 11, 3)")
        run_dbt(["run", "--select", "replaced"])
        assert commits(project, "replaced") == before + 1
        found = rows(project, "select k, v from SCHEMA.replaced order by k, v")
        assert found == [(None, 5), (None, 20), (1, 10)]

    def test_another_body_and_a_replay(self, project):
        """A new body is for new rows; with a full refresh for all of them."""
        write_file(TASK.replace("max(v)", "max(v) * 2"), "models", "newest.sql")
        (result,) = run_dbt(["run", "--select", "newest"])
        assert result.message == "CREATE CONTINUAL TASK (replaced)"
        assert rows(project, "select v from SCHEMA.newest where k = 2") == [(20,)]
        run_dbt(["run", "--select", "newest", "--full-refresh"])
        assert rows(project, "select v from SCHEMA.newest where k = 2") == [(40,)]

    def test_freshness_is_the_newest_commit(self, project):
        """A source without a column of times is as fresh as its last T."""
        (result,) = run_dbt(["source", "freshness"]).results
        assert result.status == "pass"
        assert result.age < 3600

    def test_grants_are_refused(self, project):
        """Rights are those of the store, and the error says so."""
        _, output = run_dbt_and_capture(["run", "--select", "rights"], expect_pass=False)
        assert "ctsql has no grants" in output
