"""The range of Spark's releases, and what is said of others."""

import tomllib
from pathlib import Path

import pytest

from ctsql.runtime.spark.versions import DELTA, NEWEST, OLDEST, as_text, untested


@pytest.mark.parametrize(
    ("spark", "delta", "pyspark", "warning"),
    [
        *((s, "4.4.1", s, "") for s in ("4.0.1", "4.0.5", "4.1.4", "4.2.0")),
        *(
            (s, "4.4.0", s, f"Spark {s} with Delta 4.4.0")
            for s in ("3.5.6", "4.0.0", "4.2.1", "5.0.0", "4.1.1-x-3")
        ),
        ("4.2.0", "4.3.1", "4.2.0", "Spark 4.2.0 with Delta 4.3.1"),
        # A session of the caller's, by SPARK_HOME.
        ("4.1.4", "4.4.0", "4.2.0", "Spark 4.1.4 under PySpark 4.2.0 with Delta 4.4.0"),
    ],
)
def test_the_range(
    spark: str, delta: str, pyspark: str, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said of releases within it; others are named, with what was tested."""
    monkeypatch.setattr("pyspark.__version__", pyspark)
    said = untested(spark, delta)
    assert warning in said
    assert bool(said) == bool(warning)
    assert not said or "4.0.1 to 4.2.0 with Delta 4.4" in said


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
