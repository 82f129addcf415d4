"""dbt's own tests run on one warehouse, in one JVM; each class has a schema of its own."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dbt") / "warehouse"


@pytest.fixture(scope="class")
def dbt_profile_target(warehouse: Path) -> dict[str, Any]:
    return {"type": "ctsql", "threads": 4, "path": str(warehouse)}


@pytest.fixture(scope="class")
def profile_user() -> None:
    """A warehouse has no users."""
