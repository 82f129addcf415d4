"""dbt-tests-adapter: the folders whose classes run as they are, or with an adapter's own values."""

import pytest
from dbt.tests.adapter.caching.test_caching import (
    TestCachingLowerCaseModel,
    TestCachingSelectedSchemaOnly,
    TestCachingUppercaseModel,
    TestNoPopulateCache,
)
from dbt.tests.adapter.catalog.relation_types import CatalogRelationTypes
from dbt.tests.adapter.concurrency.test_concurrency import TestConcurenncy
from dbt.tests.adapter.dbt_show.test_dbt_show import (
    BaseShowDoesNotHandleDoubleLimit,
    BaseShowLimit,
    BaseShowSqlHeader,
)
from dbt.tests.adapter.empty.test_empty import (
    BaseTestEmptyInlineSourceRef,
    BaseTestEmptySeedFlag,
    MetadataWithEmptyFlag,
    TestEmpty,
)
from dbt.tests.adapter.ephemeral.test_ephemeral import (
    BaseEphemeralMulti,
    BaseEphemeralNested,
    TestEphemeralErrorHandling,
)
from dbt.tests.adapter.persist_docs.test_persist_docs import (
    TestPersistDocs,
    TestPersistDocsAllColumnsMissing,
    TestPersistDocsColumnMissing,
    TestPersistDocsCommentOnQuotedColumn,
    TestPersistDocsQuotedColumnCaseSensitive,
    TestPersistDocsQuotedDescriptionNotAppliedOnMismatch,
)
from dbt.tests.adapter.query_comment.test_query_comment import (
    TestEmptyQueryComments,
    TestMacroArgsQueryComments,
    TestMacroInvalidQueryComments,
    TestMacroQueryComments,
    TestNullQueryComments,
    TestQueryComments,
)
from dbt.tests.adapter.relations.test_changing_relation_type import TestChangeRelationTypes
from dbt.tests.adapter.relations.test_dropping_schema_named import TestDropSchemaNamed
from dbt.tests.adapter.unit_testing.test_case_insensitivity import BaseUnitTestCaseInsensivity
from dbt.tests.adapter.unit_testing.test_invalid_input import BaseUnitTestInvalidInput
from dbt.tests.adapter.unit_testing.test_quoted_reserved_word_column_names import (
    BaseUnitTestQuotedReservedWordColumnNames,
    my_model_sql,
    test_my_model_csv_fixtures_yml,
)
from dbt.tests.adapter.unit_testing.test_types import (
    BaseUnitTestingTypes,
    BaseUnitTestingVarcharFixtureNoTruncation,
)
from dbt.tests.util import check_relations_equal, run_dbt


class TestCatalogRelationTypes(CatalogRelationTypes):
    pass


class TestShowLimit(BaseShowLimit):
    pass


@pytest.mark.changed(reason="the time zone cannot be set; the header sets the isolation")
class TestShowSqlHeader(BaseShowSqlHeader):
    @pytest.fixture(scope="class")
    def models(self):
        header = "{% call set_sql_header(config) %} set isolation = 'serializable'; {% endcall %}"
        return {"sql_header.sql": f"{header} select 1 as one"}


class TestShowDoesNotHandleDoubleLimit(BaseShowDoesNotHandleDoubleLimit):
    DATABASE_ERROR_MESSAGE = "SYNTAX_ERROR"


class TestEmptyInlineSourceRef(BaseTestEmptyInlineSourceRef):
    pass


class TestEmptySeedFlag(BaseTestEmptySeedFlag):
    pass


class TestMetadataWithEmptyFlag(MetadataWithEmptyFlag):
    pass


class TestUnitTestCaseInsensitivity(BaseUnitTestCaseInsensivity):
    pass


class TestUnitTestInvalidInput(BaseUnitTestInvalidInput):
    pass


class TestUnitTestQuotedReservedWordColumnNames(BaseUnitTestQuotedReservedWordColumnNames):
    @pytest.fixture(scope="class")
    def models(self):
        """A quoted name is in backticks."""
        return {
            "my_model.sql": my_model_sql,
            "my_upstream_model.sql": "select 1 as `GROUP`",
            "unit_tests.yml": test_my_model_csv_fixtures_yml,
        }


@pytest.mark.changed(reason="the suite expects the text of Postgres's CREATE VIEW")
class TestEphemeralMulti(BaseEphemeralMulti):
    def test_ephemeral_multi(self, project):
        run_dbt(["seed"])
        assert len(run_dbt(["run"])) == 3
        for name in ("dependent", "double_dependent", "super_dependent"):
            check_relations_equal(project.adapter, ["seed", name])


@pytest.mark.changed(reason="the suite expects the text of Postgres's CREATE VIEW")
class TestEphemeralNested(BaseEphemeralNested):
    def test_ephemeral_nested(self, project):
        assert len(run_dbt(["run"])) == 2
        check_relations_equal(project.adapter, ["source_table", "root_view"])


class TestUnitTestingVarcharFixtureNoTruncation(BaseUnitTestingVarcharFixtureNoTruncation):
    pass


class TestUnitTestingTypes(BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self):
        return [
            ["1", "1"],
            ["'1'", "1"],
            ["true", "true"],
            ["DATE '2020-01-02'", "2020-01-02"],
            ["TIMESTAMP '2013-11-03 00:00:00-0'", "2013-11-03 00:00:00-0"],
            ["cast('1' as decimal(10, 2))", "1"],
            ["cast('1' as double)", "1"],
        ]
