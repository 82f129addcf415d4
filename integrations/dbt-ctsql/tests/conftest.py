"""dbt's own tests run on one warehouse, in one JVM; each class has a schema of its own.

The classes are those of dbt-tests-adapter, imported as they are. What an adapter has to fill in
(types, expected statements) is filled in here. A class that is changed or skipped has its reason
beside it, and the mark ``changed``.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.fixtures.project import TestProjInfo


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dbt") / "warehouse"


@pytest.fixture(scope="class")
def dbt_profile_target(warehouse: Path) -> dict[str, Any]:
    return {"type": "ctsql", "threads": 4, "path": str(warehouse)}


@pytest.fixture(scope="class")
def profile_user() -> None:
    """A warehouse has no users."""


@pytest.fixture(scope="session", autouse=True)
def _setup_in_spark_sql() -> None:
    """The statements with which the classes prepare and change tables are written for Postgres."""
    run_sql = TestProjInfo.run_sql

    def run(self: TestProjInfo, sql: str, fetch: str | None = None) -> Any:
        if fetch is None:
            sql = sql.format(schema=self.test_schema, database=self.database, **_as_they_are(sql))
            sql = as_spark(sql, self.database)
        return run_sql(self, sql, fetch)

    TestProjInfo.run_sql = run


def _as_they_are(sql: str) -> dict[str, str]:
    names = set(re.findall(r"\{(\w+)\}", sql)) - {"schema", "database"}
    return {name: f"{{{name}}}" for name in names}


def as_spark(sql: str, database: str) -> str:
    """A statement of a test's setup, in the words of Spark SQL."""
    sql = sql.replace(f"{database}.", "")
    for words, other in (
        (r"timestamp without time zone", "timestamp"),
        (r"\bdefault null\b", ""),
        (r"alter table (\S+) add column (\S+) (\S+) default ('\w+')",
         r"alter table \1 add column \2 \3; update \1 set \2 = \4"),
        (r'\("seed_id","first_name","email","ip_address","birthday"\)', ""),
    ):  # fmt: skip
        sql = re.sub(words, other, sql, flags=re.IGNORECASE)
    return sql
