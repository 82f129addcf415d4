"""dbt-tests-adapter: simple_seed."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.adapter.simple_seed import test_seed
from dbt.tests.adapter.simple_seed.fixtures import properties__schema_yml
from dbt.tests.adapter.simple_seed.seeds import seeds__expected_sql
from dbt.tests.adapter.simple_seed.test_seed import (
    BaseBasicSeedTests,
    BaseSeedConfigFullRefreshOn,
    BaseSimpleSeedWithBOM,
    TestEmptySeed,
    TestSeedConfigFullRefreshOff,
    TestSeedCustomSchema,
    TestSeedParsing,
    TestSeedSpecificFormats,
    TestSeedWithEmptyDelimiter,
    TestSeedWithUniqueDelimiter,
    TestSeedWithWrongDelimiter,
    TestSimpleSeedEnabledViaConfig,
)
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride


class ReadersStay:
    """A seed is the same table after a full refresh, so its readers are not dropped."""

    def _check_relation_end_state(self, run_result: Any, project: Any, exists: bool) -> None:
        super()._check_relation_end_state(run_result, project, exists=True)


@pytest.mark.changed(reason="a full refresh replaces the rows in one commit, and readers stay")
class TestBasicSeedTests(ReadersStay, BaseBasicSeedTests):
    pass


@pytest.mark.changed(reason="a full refresh replaces the rows in one commit, and readers stay")
class TestSeedConfigFullRefreshOn(ReadersStay, BaseSeedConfigFullRefreshOn):
    pass


class TestSimpleSeedWithBOM(BaseSimpleSeedWithBOM):
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project):
        """The suite keeps the file beside its own tests."""
        project.run_sql(seeds__expected_sql)
        there = Path(test_seed.__file__).with_name("seed_bom.csv")
        shutil.copy(there, project.project_root / "seeds" / "seed_bom.csv")


class TestSimpleSeedColumnOverride(BaseSimpleSeedColumnOverride):
    @pytest.fixture(scope="class")
    def models(self):
        types = {"text": "string", "timestamp without time zone": "timestamp", "integer": "bigint"}
        text = properties__schema_yml
        for name, other in types.items():
            text = text.replace(f"type: {name}", f"type: {other}")
        return {"schema.yml": text}
