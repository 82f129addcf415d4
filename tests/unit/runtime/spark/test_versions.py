"""The range of Spark's releases, and what is said of others."""

import tomllib
from pathlib import Path

import pytest

from ctsql.runtime.spark.versions import DELTA, NEWEST, OLDEST, as_text, untested


@pytest.mark.parametrize("spark", ["4.0.1", "4.0.5", "4.1.4", "4.2.0"])
def test_within_the_range(spark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said of a release within it."""
    monkeypatch.setattr("pyspark.__version__", spark)
    assert untested(spark, "4.4.1") == ""


@pytest.mark.parametrize(
    ("spark", "delta"),
    [
        *((s, "4.4.0") for s in ("3.5.6", "4.0.0", "4.2.1", "5.0.0", "4.1.1-x-3")),
        ("4.2.0", "4.3.1"),
    ],
)
def test_outside_the_range(spark: str, delta: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning names the releases and what was tested."""
    monkeypatch.setattr("pyspark.__version__", spark)
    assert f"Spark {spark} with Delta {delta}" in untested(spark, delta)
    assert "4.0.1 to 4.2.0 with Delta 4.4" in untested(spark, delta)


def test_another_spark_than_pysparks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of the caller's, by SPARK_HOME; both releases alone were tested."""
    monkeypatch.setattr("pyspark.__version__", "4.2.0")
    assert "Spark 4.1.4 under PySpark 4.2.0 with Delta 4.4.0" in untested("4.1.4", "4.4.0")


def test_what_is_installed_is_the_range() -> None:
    """The project's requirement and the code say the same."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    spark, delta = (
        next(r for r in project["dependencies"] if r.startswith(name))
        for name in ("pyspark", "delta-spark")
    )
    assert f">={as_text(OLDEST)}" in spark
    assert f"<={as_text(NEWEST)}" in spark
    assert f"=={as_text(DELTA)}." in delta
