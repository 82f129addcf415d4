"""dbt-tests-adapter: utils."""

import pytest
from dbt.tests.adapter.utils.data_types.test_type_bigint import TestTypeBigInt
from dbt.tests.adapter.utils.data_types.test_type_boolean import TestTypeBoolean
from dbt.tests.adapter.utils.data_types.test_type_float import TestTypeFloat
from dbt.tests.adapter.utils.data_types.test_type_int import BaseTypeInt
from dbt.tests.adapter.utils.data_types.test_type_numeric import TestTypeNumeric
from dbt.tests.adapter.utils.data_types.test_type_string import TestTypeString
from dbt.tests.adapter.utils.data_types.test_type_timestamp import TestTypeTimestamp
from dbt.tests.adapter.utils.fixture_get_intervals_between import (
    models__test_get_intervals_between_sql,
    models__test_get_intervals_between_yml,
)
from dbt.tests.adapter.utils.test_any_value import TestAnyValue
from dbt.tests.adapter.utils.test_array_append import TestArrayAppend
from dbt.tests.adapter.utils.test_array_concat import TestArrayConcat
from dbt.tests.adapter.utils.test_array_construct import TestArrayConstruct
from dbt.tests.adapter.utils.test_bool_or import TestBoolOr
from dbt.tests.adapter.utils.test_cast import TestCast
from dbt.tests.adapter.utils.test_cast_bool_to_text import TestCastBoolToText
from dbt.tests.adapter.utils.test_concat import TestConcat
from dbt.tests.adapter.utils.test_current_timestamp import BaseCurrentTimestampAware
from dbt.tests.adapter.utils.test_date import TestDate
from dbt.tests.adapter.utils.test_date_spine import TestDateSpine
from dbt.tests.adapter.utils.test_date_trunc import TestDateTrunc
from dbt.tests.adapter.utils.test_dateadd import TestDateAdd
from dbt.tests.adapter.utils.test_datediff import TestDateDiff
from dbt.tests.adapter.utils.test_equals import TestEquals
from dbt.tests.adapter.utils.test_escape_single_quotes import BaseEscapeSingleQuotesBackslash
from dbt.tests.adapter.utils.test_except import TestExcept
from dbt.tests.adapter.utils.test_generate_series import TestGenerateSeries
from dbt.tests.adapter.utils.test_get_intervals_between import BaseGetIntervalsBetween
from dbt.tests.adapter.utils.test_get_powers_of_two import TestGetPowersOfTwo
from dbt.tests.adapter.utils.test_hash import TestHash
from dbt.tests.adapter.utils.test_intersect import TestIntersect
from dbt.tests.adapter.utils.test_last_day import TestLastDay
from dbt.tests.adapter.utils.test_length import TestLength
from dbt.tests.adapter.utils.test_listagg import TestListagg
from dbt.tests.adapter.utils.test_null_compare import TestMixedNullCompare, TestNullCompare
from dbt.tests.adapter.utils.test_position import TestPosition
from dbt.tests.adapter.utils.test_replace import TestReplace
from dbt.tests.adapter.utils.test_right import TestRight
from dbt.tests.adapter.utils.test_safe_cast import TestSafeCast
from dbt.tests.adapter.utils.test_source_freshness_custom_info import TestCalculateFreshnessMethod
from dbt.tests.adapter.utils.test_split_part import TestSplitPart
from dbt.tests.adapter.utils.test_string_literal import TestStringLiteral
from dbt.tests.adapter.utils.test_timestamps import BaseCurrentTimestamps
from dbt.tests.adapter.utils.test_validate_sql import TestValidateSqlMethod


class TestCurrentTimestamp(BaseCurrentTimestampAware):
    pass


class TestEscapeSingleQuotes(BaseEscapeSingleQuotesBackslash):
    pass


@pytest.mark.changed(reason="ANSI rules refuse 09/01/2023 as a date; the days are written ISO 8601")
class TestGetIntervalsBetween(BaseGetIntervalsBetween):
    @pytest.fixture(scope="class")
    def models(self):
        model = models__test_get_intervals_between_sql
        for day in ("01", "12"):
            model = model.replace(f"09/{day}/2023", f"2023-09-{day}")
        return {
            "test_get_intervals_between.yml": models__test_get_intervals_between_yml,
            "test_get_intervals_between.sql": model,
        }


@pytest.mark.changed(reason="whole numbers of a seed are BIGINT, so that large ones fit")
class TestTypeInt(BaseTypeInt):
    @pytest.fixture(scope="class")
    def seeds(self):
        types = "seeds: [{name: expected, config: {column_types: {int_col: int}}}]"
        return {"expected.csv": "int_col\n12345678\n", "expected.yml": types}


class TestCurrentTimestamps(BaseCurrentTimestamps):
    @pytest.fixture(scope="class")
    def expected_schema(self):
        return {
            "current_timestamp": "timestamp",
            "current_timestamp_in_utc_backcompat": "timestamp",
            "current_timestamp_backcompat": "timestamp",
        }

    @pytest.fixture(scope="class")
    def expected_sql(self):
        return """
select current_timestamp() as current_timestamp,
       current_timestamp() as current_timestamp_in_utc_backcompat,
       current_timestamp() as current_timestamp_backcompat
"""
