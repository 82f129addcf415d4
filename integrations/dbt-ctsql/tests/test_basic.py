"""dbt-tests-adapter: basic."""

from typing import Any

import pytest
from dbt.tests.adapter.basic.expected_catalog import (
    base_expected_catalog,
    expected_references_catalog,
)
from dbt.tests.adapter.basic.test_adapter_methods import TestBaseCaching
from dbt.tests.adapter.basic.test_base import TestSimpleMaterializations
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.basic.test_empty import TestEmpty
from dbt.tests.adapter.basic.test_ephemeral import TestEphemeral
from dbt.tests.adapter.basic.test_generic_tests import TestGenericTests
from dbt.tests.adapter.basic.test_get_catalog_for_single_relation import (
    BaseGetCatalogForSingleRelation,
)
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncrementalBadStrategy,
    TestBaseIncrementalNotSchemaChange,
    Testincremental,
)
from dbt.tests.adapter.basic.test_singular_tests import TestSingularTests
from dbt.tests.adapter.basic.test_singular_tests_ephemeral import TestSingularTestsEphemeral
from dbt.tests.adapter.basic.test_snapshot_check_cols import TestSnapshotCheckCols
from dbt.tests.adapter.basic.test_snapshot_timestamp import TestSnapshotTimestamp
from dbt.tests.adapter.basic.test_table_materialization import TestTableMat
from dbt.tests.adapter.basic.test_validate_connection import TestValidateConnection
from dbt.tests.util import AnyFloat
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata


class TestIncrementalBadStrategy(BaseIncrementalBadStrategy):
    pass


def stats(*, stored: bool) -> dict[str, Any]:
    value = AnyFloat() if stored else None
    keys = [("rows", "Rows"), ("bytes", "Bytes")] if stored else []
    found = {
        key: {
            "id": key,
            "label": label,
            "value": value,
            "description": f"{label} that are stored now",
            "include": True,
        }
        for key, label in keys
    }
    has = {
        "id": "has_stats",
        "label": "Has Stats?",
        "value": stored,
        "description": "Indicates whether there are statistics for this table",
        "include": False,
    }
    return {**found, "has_stats": has}


TYPES = {
    "role": None,
    "id_type": "bigint",
    "text_type": "string",
    "time_type": "timestamp",
    "view_type": "VIEW",
    "table_type": "BASE TABLE",
}


class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project, profile_user):
        return base_expected_catalog(
            project, **TYPES, model_stats=stats(stored=False), seed_stats=stats(stored=True)
        )


class TestDocsGenReferences(BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project, profile_user):
        return expected_references_catalog(
            project,
            **TYPES,
            bigint_type="bigint",
            model_stats=stats(stored=True),
            view_summary_stats=stats(stored=False),
        )


class TestGetCatalogForSingleRelation(BaseGetCatalogForSingleRelation):
    @pytest.fixture(scope="class")
    def expected_catalog_my_seed(self, project):
        return catalog_of(project, "my_seed", "BASE TABLE", stored=True)

    @pytest.fixture(scope="class")
    def expected_catalog_my_view_model(self, project):
        return catalog_of(project, "my_view_model", "VIEW", stored=False)


def catalog_of(project, name: str, kind: str, *, stored: bool) -> CatalogTable:
    types = {
        "id": "bigint",
        "first_name": "string",
        "email": "string",
        "ip_address": "string",
        "updated_at": "timestamp",
    }
    return CatalogTable(
        metadata=TableMetadata(kind, project.test_schema, name, project.database),
        columns={c: ColumnMetadata(t, i, c) for i, (c, t) in enumerate(types.items(), 1)},
        stats={
            key: StatsItem(**{**item, "value": 1.0 if key == "rows" else AnyFloat()})
            for key, item in stats(stored=stored).items()
            if key != "has_stats"
        },
    )
