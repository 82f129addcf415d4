"""dbt-tests-adapter: constraints. Types and expected statements are the adapter's."""

import pytest
from dbt.tests.adapter.constraints import fixtures
from dbt.tests.adapter.constraints.test_constraints import (
    BaseConstraintQuotedColumn,
    BaseConstraintsRollback,
    BaseConstraintsRuntimeDdlEnforcement,
    BaseIncrementalConstraintsColumnsEqual,
    BaseIncrementalConstraintsRollback,
    BaseIncrementalConstraintsRuntimeDdlEnforcement,
    BaseIncrementalContractSqlHeader,
    BaseModelConstraintsRuntimeEnforcement,
    BaseTableConstraintsColumnsEqual,
    BaseTableContractSqlHeader,
    BaseViewConstraintsColumnsEqual,
    TestIncrementalForeignKeyConstraint,
)

CREATED = """
drop table if exists {tmp} purge;
create table {tmp} ({columns});
insert into {tmp} select id, {name}, date_day from
( {comment} select 'blue' as {name}, 1 as id, '2019-01-01' as date_day ) as model_subq;
alter table {tmp} rename to <model_identifier>
"""
DEPENDS = "-- depends_on: <foreign_key_model_identifier>"


def created(columns: str, name: str = "color", comment: str = DEPENDS) -> str:
    tmp = "<model_identifier>"  # with another ending
    return CREATED.format(tmp=tmp, columns=columns, name=name, comment=comment)


class Types:
    """Spark's names of types; TEXT is STRING."""

    @pytest.fixture
    def string_type(self):
        return "string"

    @pytest.fixture
    def int_type(self):
        return "int"

    @pytest.fixture
    def data_types(self):
        # value, type in the contract, type in the error
        return [
            ["1", "int", "int"],
            ["'1'", "string", "string"],
            ["true", "boolean", "boolean"],
            ["timestamp '2013-11-03 00:00:00'", "timestamp", "timestamp"],
            ["array('a','b','c')", "array<string>", "array<string>"],
            ["array(1,2,3)", "array<int>", "array<int>"],
            ["cast('1' as decimal(4, 2))", "decimal(4, 2)", "decimal(4,2)"],
        ]


class TestTableConstraintsColumnsEqual(Types, BaseTableConstraintsColumnsEqual):
    pass


class TestViewConstraintsColumnsEqual(Types, BaseViewConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(Types, BaseIncrementalConstraintsColumnsEqual):
    pass


COLUMN_CHECKS = """
id integer not null check ((id > 0)) check (id >= 1), color text, date_day text
"""


class TestTableConstraintsRuntimeDdlEnforcement(BaseConstraintsRuntimeDdlEnforcement):
    @pytest.fixture(scope="class")
    def expected_sql(self):
        return created(COLUMN_CHECKS)


class TestIncrementalConstraintsRuntimeDdlEnforcement(
    BaseIncrementalConstraintsRuntimeDdlEnforcement
):
    @pytest.fixture(scope="class")
    def expected_sql(self):
        return created(COLUMN_CHECKS)


class TestModelConstraintsRuntimeEnforcement(BaseModelConstraintsRuntimeEnforcement):
    @pytest.fixture(scope="class")
    def expected_sql(self):
        return created(
            "id integer not null, color text, date_day text, check ((id > 0)), check (id >= 1)"
        )


class TestConstraintQuotedColumn(BaseConstraintQuotedColumn):
    @pytest.fixture(scope="class")
    def models(self):
        return {
            "my_model.sql": fixtures.my_model_with_quoted_column_name_sql,
            "constraints_schema.yml": fixtures.model_quoted_column_schema_yml.replace('"', "`"),
        }

    @pytest.fixture(scope="class")
    def expected_sql(self):
        columns = "id integer not null, `from` text not null, date_day text"
        return created(f"{columns}, check ((`from` = 'blue'))", "`from`", "")


class Refused:
    """Delta's words for NULL in a NOT NULL column, and the row that is in the table still."""

    @pytest.fixture(scope="class")
    def expected_error_messages(self):
        return ["DATA_ERROR", "id"]


class TestTableConstraintsRollback(Refused, BaseConstraintsRollback):
    pass


class TestIncrementalConstraintsRollback(Refused, BaseIncrementalConstraintsRollback):
    pass


def with_header(model: str) -> dict[str, str]:
    """A model whose header sets the isolation."""
    model = model.replace("set session time zone 'Asia/Kolkata'", "set isolation = 'serializable'")
    return {
        "my_model_contract_sql_header.sql": model.replace("current_setting('timezone')", "'one'"),
        "constraints_schema.yml": fixtures.model_contract_header_schema_yml,
    }


@pytest.mark.changed(reason="the time zone cannot be set; the header sets the isolation")
class TestTableContractSqlHeader(BaseTableContractSqlHeader):
    @pytest.fixture(scope="class")
    def models(self):
        return with_header(fixtures.my_model_contract_sql_header_sql)


@pytest.mark.changed(reason="the time zone cannot be set; the header sets the isolation")
class TestIncrementalContractSqlHeader(BaseIncrementalContractSqlHeader):
    @pytest.fixture(scope="class")
    def models(self):
        return with_header(fixtures.my_model_incremental_contract_sql_header_sql)
