"""What a plain start of Spark is; none is started here."""

import os
import sys
from pathlib import Path

import pytest

from ctsql.runtime.spark.start.environment import CONFIGURED_BY, configured, is_plain
from ctsql.runtime.spark.start.session import python_of_functions


@pytest.mark.parametrize(
    ("master", "plain"),
    [
        (None, True),
        ("local", True),
        ("local[*]", True),
        ("local[2]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_masters(tmp_path: Path, master: str | None, plain: bool) -> None:
    """Executors of their own get Delta's JARs from the driver."""
    assert is_plain(master, {"SPARK_HOME": str(tmp_path)}) is plain


@pytest.mark.parametrize("name", CONFIGURED_BY)
def test_configuration_is_left_alone(tmp_path: Path, name: str) -> None:
    """What is configured for Spark stays as it is."""
    home = {"SPARK_HOME": str(tmp_path)}
    assert is_plain("local", {**home, name: ""})
    assert not is_plain("local", {**home, name: "x"})


def test_a_folder_of_configuration(tmp_path: Path) -> None:
    """Spark's own, which may hold spark-defaults.conf."""
    (tmp_path / "conf").mkdir()
    assert not is_plain("local", {"SPARK_HOME": str(tmp_path)})


def test_settings_that_are_configured(tmp_path: Path) -> None:
    """In the folder that is given, else in Spark's own; as Java reads properties."""
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "spark-defaults.conf"
    environ = {"SPARK_HOME": str(tmp_path)}
    assert configured("a", environ) is None
    file.write_text("# a 0\n\n  a = 1 2\nb:3\na.b\t4\nc\nd 5\nd 6\n")
    found = [configured(name, environ) for name in ("a", "b", "a.b", "c", "d", "e")]
    assert found == ["1 2", "3", "4", None, "6", None]
    assert configured("a", {**environ, "SPARK_CONF_DIR": str(tmp_path / "other")}) is None


def test_a_setting_may_go_over_several_lines(tmp_path: Path) -> None:
    """With a backslash at their ends, and before signs that mean something else."""
    file = tmp_path / "spark-defaults.conf"
    lines = [
        "spark.jars.packages a\\:b:1, \\",
        "    c:d:2,\\",
        "",
        "# e is none \\",
        "e \\u0061\\tb\\\\",
        "f\\ g = 1",
        "h x\\",
    ]
    file.write_bytes("\n".join(lines).encode() + b"\ni \xe4\n")
    names = ("spark.jars.packages", "e", "f g", "h", "i")
    found = [configured(name, {"SPARK_CONF_DIR": str(tmp_path)}) for name in names]
    assert found == ["a:b:1, c:d:2,", "a\tb\\", "1", "xi \ufffd", None]


@pytest.mark.parametrize(
    ("master", "given", "python"),
    [
        ("local[2]", None, sys.executable),
        ("local[2]", "python3.99", "python3.99"),
        ("spark://host:7077", None, None),
    ],
    ids=["local", "given", "cluster"],
)
def test_the_python_of_functions(
    monkeypatch: pytest.MonkeyPatch, master: str, given: str | None, python: str | None
) -> None:
    """The program's, also if Spark is configured; what the program starts later gets no other."""
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if given is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", given)
    with python_of_functions(master):
        assert os.environ.get("PYSPARK_PYTHON") == python
    assert os.environ.get("PYSPARK_PYTHON") == given
