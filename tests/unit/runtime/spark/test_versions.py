"""The range of Spark's releases, and what is said of others."""

import tomllib
from pathlib import Path

import pytest

from ctsql.runtime.spark.versions import NEWEST, OLDEST, as_text, untested


@pytest.mark.parametrize("version", ["4.0.1", "4.0.5", "4.1.4", "4.2.0"])
def test_within_the_range(version: str) -> None:
    """Nothing is said of a release within it."""
    assert untested(version) == ""


@pytest.mark.parametrize("version", ["3.5.6", "4.0.0", "4.2.1", "4.3.0.dev1", "5.0.0"])
def test_outside_the_range(version: str) -> None:
    """The warning names the release and what was tested."""
    assert version in untested(version)
    assert "4.0.1 to 4.2.0" in untested(version)


def test_what_is_installed_is_the_range() -> None:
    """The project's requirement and the code say the same."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    (requirement,) = (r for r in project["dependencies"] if r.startswith("pyspark"))
    assert f">={as_text(OLDEST)}" in requirement
    assert f"<={as_text(NEWEST)}" in requirement
