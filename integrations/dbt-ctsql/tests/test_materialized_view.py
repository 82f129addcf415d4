"""dbt-tests-adapter: materialized_view; its statements are the adapter's."""

from typing import Any

import pytest
from dbt.adapters.base.relation import BaseRelation
from dbt.tests.adapter.materialized_view.basic import MaterializedViewBasic
from dbt.tests.adapter.materialized_view.changes import (
    MaterializedViewChanges,
    MaterializedViewChangesApplyMixin,
    MaterializedViewChangesContinueMixin,
    MaterializedViewChangesFailMixin,
)
from dbt.tests.util import get_connection, get_model_file, set_model_file


def stored_type(project: Any, relation: BaseRelation) -> str | None:
    with get_connection(project.adapter):
        found = project.adapter.list_relations_without_caching(relation.without_identifier())
    return next((str(r.type) for r in found if r.identifier == relation.identifier), None)


def definition(project: Any, view: BaseRelation) -> str:
    return project.run_sql(f"show create {view}", fetch="one")[1]


class TestMaterializedView(MaterializedViewBasic):
    query_relation_type = staticmethod(stored_type)

    @staticmethod
    def insert_record(project: Any, table: BaseRelation, record: tuple[int, int]) -> None:
        project.run_sql(f"insert into {table} values {record}")

    @staticmethod
    def refresh_materialized_view(project: Any, materialized_view: BaseRelation) -> None:
        project.run_sql(f"refresh materialized view {materialized_view}")

    @staticmethod
    def query_row_count(project: Any, relation: BaseRelation) -> int:
        """The rows that are stored: other reads refresh a view first."""
        count = f"select count(*) from {relation}"
        if relation.is_materialized_view:
            count = f"set isolation = 'serializable'; {count}"
        rows = project.run_sql(count, fetch="one")
        project.run_sql("reset isolation")
        return rows[0]


class Changes(MaterializedViewChanges):
    query_relation_type = staticmethod(stored_type)

    @staticmethod
    def check_start_state(project: Any, materialized_view: BaseRelation) -> None:
        assert "with (" not in definition(project, materialized_view)

    @staticmethod
    def change_config_via_alter(project: Any, materialized_view: BaseRelation) -> None:
        _configure(project, materialized_view, refresh="""["every '1 day'", "at creation"]""")

    @staticmethod
    def check_state_alter_change_is_applied(project: Any, materialized_view: BaseRelation) -> None:
        assert "refresh every '1 day'" in definition(project, materialized_view)

    @staticmethod
    def change_config_via_replace(project: Any, materialized_view: BaseRelation) -> None:
        _configure(project, materialized_view, deletion_vectors="false")

    @staticmethod
    def check_state_replace_change_is_applied(
        project: Any, materialized_view: BaseRelation
    ) -> None:
        assert "deletion vectors = false" in definition(project, materialized_view)


def _configure(project: Any, view: BaseRelation, **options: str) -> None:
    model, kind = get_model_file(project, view), "materialized='materialized_view',"
    values = "".join(f" {name}={value}," for name, value in options.items())
    set_model_file(project, view, model.replace(kind, kind + values))


class TestChangesApply(Changes, MaterializedViewChangesApplyMixin):
    pass


class TestChangesContinue(Changes, MaterializedViewChangesContinueMixin):
    pass


class TestChangesFail(Changes, MaterializedViewChangesFailMixin):
    pass
