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
    TestEphemeralErrorHandling,
    TestEphemeralMulti,
    TestEphemeralNested,
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
)
from dbt.tests.adapter.unit_testing.test_types import (
    BaseUnitTestingTypes,
    BaseUnitTestingVarcharFixtureNoTruncation,
)


class TestCatalogRelationTypes(CatalogRelationTypes):
    pass


class TestShowLimit(BaseShowLimit):
    pass


class TestShowSqlHeader(BaseShowSqlHeader):
    @pytest.fixture(scope="class")
    def models(self):
        """The header is a setting of ctsql; the time zone cannot be set."""
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
    pass


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
