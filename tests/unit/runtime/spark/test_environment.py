"""What is said when Spark cannot start: Java, JARs and the rest, without starting anything."""

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark import SparkContext

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.spark.start import environment
from ctsql.runtime.spark.start.environment import (
    check_java,
    delta_jars,
    explain_start_failure,
    spark_builder_config,
)
from ctsql.runtime.spark.start.session import start_spark

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Java is a script")


def _java(home: Path, script: str) -> dict[str, str]:
    """A JAVA_HOME whose java is a shell script."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("21", 21), ("17-ea", 17), ("25.0.1+8-LTS", 25), ("26-internal", 26)],
)
def test_supported_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    """The version is read from what java prints, after a line about JAVA_TOOL_OPTIONS too."""
    monkeypatch.setattr("pyspark.__version__", "4.2.0")  # earlier releases take no Java above 22
    script = f"""echo 'Picked up JAVA_TOOL_OPTIONS: -Da=b' >&2
echo 'openjdk version "{version}" 2025-04-15' >&2"""
    found = check_java(_java(tmp_path, script))
    assert (found.version, found.major) == (version, major)


def test_java_prints_another_encoding(tmp_path: Path) -> None:
    """As the options of JAVA_TOOL_OPTIONS may be in."""
    script = """printf 'Picked up JAVA_TOOL_OPTIONS: -Da=\\351\\n' >&2
echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
    assert check_java(_java(tmp_path, script)).major == 17


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22", "16"])
def test_old_java(tmp_path: Path, version: str) -> None:
    """The version found is named, and what to type."""
    environ = _java(tmp_path, f"""echo 'java version "{version}"' >&2""")
    with pytest.raises(CtsqlError) as caught:
        check_java(environ)
    assert caught.value.condition == "JAVA_UNSUPPORTED"
    assert version in caught.value.message
    assert (caught.value.hint or "").startswith("Type: ")


@pytest.mark.parametrize(("release", "runs"), [("4.0.5", False), ("4.1.4", False), ("4.2.0", True)])
def test_new_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, runs: bool
) -> None:
    """Hadoop of Spark 4.0 and 4.1 calls what Java 23 took away."""
    monkeypatch.setattr("pyspark.__version__", release)
    environ = _java(tmp_path, """echo 'openjdk version "25.0.1" 2025-10-21' >&2""")
    if runs:
        assert check_java(environ).major == 25
        return
    with pytest.raises(CtsqlError, match="JAVA_UNSUPPORTED") as caught:
        check_java(environ)
    assert "needs 17 or 21" in (caught.value.detail or "")


def test_no_java(tmp_path: Path) -> None:
    """Neither JAVA_HOME nor PATH leads to one."""
    with pytest.raises(CtsqlError) as caught:
        check_java({"PATH": str(tmp_path)})
    assert caught.value.condition == "JAVA_NOT_FOUND"
    assert (caught.value.hint or "").startswith("Type: ")


def test_java_home_leads_nowhere(tmp_path: Path) -> None:
    """spark-submit would not look at PATH then, so neither is a java there good enough."""
    with pytest.raises(CtsqlError) as caught:
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert caught.value.condition == "JAVA_NOT_FOUND"
    assert "unset JAVA_HOME" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "script",
    ["echo 'The operation could not be completed. Unable to locate a Java Runtime.' >&2; exit 1"],
    ids=["stub"],
)
def test_java_is_a_stub(tmp_path: Path, script: str) -> None:
    """On macOS there is a java that only tells where to get one."""
    with pytest.raises(CtsqlError) as caught:
        check_java(_java(tmp_path, script))
    assert caught.value.condition == "JAVA_NOT_FOUND"
    assert "Unable to locate" in (caught.value.detail or "")


def test_java_does_not_start(tmp_path: Path) -> None:
    """A file that is no program is not there."""
    environ = _java(tmp_path, "")
    (tmp_path / "bin" / "java").write_bytes(b"\x7fELF but broken")
    with pytest.raises(CtsqlError) as caught:
        check_java(environ)
    assert caught.value.condition == "JAVA_NOT_FOUND"


def test_jars_that_were_fetched_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them or none: with one missing, Ivy is asked."""
    monkeypatch.setattr("pyspark.__version__", "4.1.4")
    assert delta_jars(tmp_path) == ()
    cold = spark_builder_config(folder=tmp_path)
    assert list(cold) == ["spark.jars.packages"]
    assert cold["spark.jars.packages"].startswith("io.delta:delta-spark_4.1_2.13:4.")
    names = [name.format(**environment.installed_versions()) for name in environment.JARS]
    (tmp_path / names[0]).touch()
    assert list(spark_builder_config(folder=tmp_path)) == ["spark.jars.packages"]
    for name in names:
        (tmp_path / name).touch()
    warm = spark_builder_config(folder=tmp_path)
    assert warm == {"spark.jars": ",".join(str(tmp_path / name) for name in names)}


@pytest.mark.parametrize("have_jars", [True, False])
def test_what_is_configured_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, have_jars: bool
) -> None:
    """JARs of somebody's own stand beside Delta's, as do packages, and none stands there twice."""
    name, mine = (
        "spark.jars.packages",
        environment.COORDINATE.format(**environment.installed_versions()),
    )
    if have_jars:
        jars = [
            tmp_path / jar.format(**environment.installed_versions()) for jar in environment.JARS
        ]
        for jar in jars:
            jar.touch()
        name, mine = "spark.jars", ",".join(map(str, jars))
    (tmp_path / "spark-defaults.conf").write_text(f"# theirs\n{name}  first, second,{mine}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert spark_builder_config(folder=tmp_path) == {name: f"first,second,{mine}"}


def test_coordinate_is_the_one_delta_would_use(tmp_path: Path) -> None:
    """Delta's own helper and ours name the same artifact."""
    from delta.pip_utils import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = configure_spark_with_delta_pip(SparkSession.Builder())
    theirs = builder._options["spark.jars.packages"]
    assert spark_builder_config(folder=tmp_path) == {"spark.jars.packages": theirs}


IVY = """:: problems summary ::
:::: ERRORS
	Server access error at url https://repo1.maven.org/ (java.net.UnknownHostException: repo1)
Exception in thread "main" java.lang.RuntimeException: \
[unresolved dependency: io.delta#delta-spark_4.2_2.13;4.4.0: not found]
	at org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:642)
"""


@pytest.mark.parametrize(
    ("chatter", "condition", "message"),
    [
        (IVY, "JAR_DOWNLOAD_FAILED", "io.delta:delta-spark_4.2_2.13:4.4.0"),
        ("JAVA_HOME is not set", "JAVA_NOT_FOUND", "JAVA_HOME is not set"),
        ("/x/spark-class: line 71: /y/bin/java: No such file", "JAVA_NOT_FOUND", "No such file"),
        (
            "java.lang.UnsupportedClassVersionError: X (class file version 61.0)",
            "JAVA_UNSUPPORTED",
            "61.0",
        ),
        ("Error: Could not reserve enough space for object heap", "SPARK_ERROR", "enough space"),
        (
            "java.net.UnknownHostException: box: box: Name or service not known",
            "SPARK_ERROR",
            "Name or service",
        ),
        ("x\nException: a\nCaused by: b.C: the reason\n at y", "SPARK_ERROR", "b.C: the reason"),
        ("", "SPARK_ERROR", "gateway exited"),
    ],
    ids=["ivy", "no java", "no such java", "class", "memory", "host name", "cause", "nothing"],
)
def test_failures_are_recognised(chatter: str, condition: str, message: str) -> None:
    """The JVM's words lead to a condition with a hint; what PySpark raised is the cause."""
    raised = RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway exited before it said its port")
    found = explain_start_failure(raised, chatter=chatter)
    assert found.condition == condition
    assert message in (found.detail or "").replace("Java gateway", "gateway")
    assert found.hint
    assert found.__cause__ is raised
    assert "\tat " not in str(found)


def test_spark_connect_in_the_environment() -> None:
    """Spark names neither the variable nor what to do."""
    chatter = "SparkException: Remote cannot be specified with master and/or deploy mode."
    found = explain_start_failure(RuntimeError("exited"), chatter=chatter)
    assert found.hint == "Type: unset SPARK_REMOTE"


def test_an_error_of_ours_stays_as_it_is() -> None:
    """Explaining twice changes nothing."""
    first = explain_start_failure(RuntimeError("x"))
    assert explain_start_failure(first) is first


def test_start_asks_for_java_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before PySpark is imported or anything is fetched."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CtsqlError) as caught:
        start_spark({"spark.master": "local[1]"})
    assert caught.value.condition == "JAVA_NOT_FOUND"


@pytest.mark.parametrize(
    ("release", "fits"), [("4.2.0", True), ("4.2.9", True), ("4.1.4", False), ("5.0.0-x", False)]
)
def test_a_spark_home_of_another_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, fits: bool
) -> None:
    """Both releases are named before anything starts; patches of one release go together."""
    monkeypatch.setattr("pyspark.__version__", "4.2.0")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{release}.jar").touch()
    with pytest.raises(CtsqlError, match="SPARK_ERROR") as caught:
        start_spark({"spark.master": "local[1]"})
    is_named = f"SPARK_HOME is Spark {release}, and PySpark is 4.2.0" == caught.value.message
    assert is_named != fits  # one that fits has no bin/spark-submit here
    assert fits or "unset SPARK_HOME" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("remote", "hint"), [(True, "in another process"), (False, "connect(spark=...)")]
)
def test_the_callers_spark_in_this_process(
    monkeypatch: pytest.MonkeyPatch, remote: bool, hint: str
) -> None:
    """No second JVM is started, which PySpark would then refuse."""
    if remote:
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    else:
        monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    with pytest.raises(CtsqlError, match="this process has a SparkSession already") as caught:
        start_spark({"spark.master": "local[1]"})
    assert hint in (caught.value.hint or "")


def test_a_jvm_of_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It outlives the caller's Spark, and a new one in it has no JARs of Delta's."""
    session = Mock()
    monkeypatch.setattr("ctsql.runtime.spark.start.session.start_jvm", lambda *_: None)
    monkeypatch.setattr("ctsql.runtime.spark.start.session.SparkSession", lambda _: session)
    session._jvm.org.apache.spark.util.Utils.classIsLoadable.return_value = False
    with pytest.raises(CtsqlError, match="was started without Delta Lake") as caught:
        start_spark({"spark.master": "local[1]"})
    assert "Restart the process" in (caught.value.hint or "")
    session.stop.assert_called_once()


def test_run_as_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, what was found and what to type; no condition names, no stack trace."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert environment.main() == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0] == "Java was not found."
    assert len(said.err.splitlines()) == 3
