"""Which JVM is started for which master, configuration and purpose; none is started here."""

import shlex
from pathlib import Path

import pytest

from ctsql.runtime.spark.start import environment, jvm_options
from ctsql.runtime.spark.start.environment import CONFIGURED_BY, Java
from ctsql.runtime.spark.start.jvm_options import (
    Life,
    archive_folder,
    class_path,
    jvm_settings,
    keep_archive,
    option_text,
)

JAVA = Java(Path("/usr/bin/java"), "17.0.15", 17)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark and a home with Delta's JARs and an empty cache, both below the folder given."""
    for name in (*CONFIGURED_BY, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "the home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    jars = environment.ivy_jars_folder()
    jars.mkdir(parents=True)
    for name in environment.JARS:
        (jars / name.format(**environment.installed_versions())).touch()
    return tmp_path


def test_delta_stands_on_the_class_path(plain: Path) -> None:
    """Where its JARs are known; nothing is resolved or copied then."""
    found = jvm_settings(JAVA, "local[*]", Life.LONG)
    jars = environment.delta_jars()
    assert found["spark.driver.extraClassPath"].split(":") == [str(jar) for jar in jars]
    assert "spark.jars" not in found
    for jar in jars:
        jar.unlink()
    assert list(jvm_settings(JAVA, "local[*]", Life.LONG)) == ["spark.jars.packages"]


def test_a_cluster_gets_jars(plain: Path) -> None:
    """As files to send."""
    assert list(jvm_settings(JAVA, "spark://host:7077", Life.SHORT)) == ["spark.jars"]


def test_only_short_commands_do_without_the_optimising_compiler(plain: Path) -> None:
    """It pays in what lives longer."""

    def options(life: Life) -> list[str]:
        return shlex.split(jvm_settings(JAVA, "local", life)["spark.driver.extraJavaOptions"])

    assert options(Life.SHORT) == ["-XX:TieredStopAtLevel=1"]
    assert "-XX:TieredStopAtLevel=1" not in options(Life.LONG)


def test_memory_is_given_back(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what lives long, and where Java is not configured: bounds that do not fit are an error."""

    def bounds(life: Life) -> list[str]:
        options = shlex.split(jvm_settings(JAVA, "local", life)["spark.driver.extraJavaOptions"])
        return [o for o in options if "HeapFreeRatio" in o or "G1Periodic" in o]

    for name in jvm_options.JAVA_CONFIGURED_BY:
        monkeypatch.delenv(name, raising=False)
    assert len(bounds(Life.LONG)) == 3
    assert bounds(Life.SHORT) == []
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:MinHeapFreeRatio=40")
    assert bounds(Life.LONG) == []


def test_the_archive_is_used(plain: Path) -> None:
    """If it is there; a space in its name is no end of it."""

    def options() -> list[str]:
        return shlex.split(jvm_settings(JAVA, "local", Life.LONG)["spark.driver.extraJavaOptions"])

    assert not any("Archive" in option for option in options())
    draft = archive_folder() / "draft"
    draft.parent.mkdir(parents=True)
    draft.touch()
    archive = keep_archive(draft, JAVA, class_path(plain))
    assert f"-XX:SharedArchiveFile={archive}" in options()
    assert " " in str(archive)


def test_options_are_taken_apart_as_they_were() -> None:
    """By a shell's rules, which Spark's launcher follows."""
    options = ["-Da=b c", '-Dq="x"', "-Dw=a\\b", "-XX:+A"]
    assert shlex.split(option_text(options)) == options
