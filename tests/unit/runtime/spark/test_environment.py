"""What is said when Spark cannot start: Java, JARs and the rest, without starting anything."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from filelock import FileLock, Timeout
from pyspark import SparkContext

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.spark.start import environment
from ctsql.runtime.spark.start.environment import (
    check_java,
    delta_jars,
    explain_start_failure,
    ivy_jars_folder,
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
    ("release", "version", "major"),
    [
        ("4.2.0", "17.0.15", 17),
        ("4.2.0", "17-ea", 17),
        ("4.2.0", "25.0.1+8-LTS", 25),
        ("4.2.0", "26-internal", 26),
        ("4.2.0", "1.8.0_392", None),
        ("4.2.0", "11.0.22", None),
        ("4.2.0", "16", None),
        ("4.1.4", "21", 21),
        ("4.1.4", "25.0.1", None),  # Hadoop of Spark 4.0 and 4.1 calls what Java 23 took away
        ("4.0.5", "25.0.1", None),
    ],
)
def test_versions_of_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, version: str, major: int | None
) -> None:
    """What java prints, after a line in any encoding; another version is named in the error."""
    monkeypatch.setattr("pyspark.__version__", release)
    script = f"""printf 'Picked up JAVA_TOOL_OPTIONS: -Da=\\351\\n' >&2
echo 'openjdk version "{version}" 2025-04-15' >&2"""
    environ = _java(tmp_path, script)
    if major is not None:
        found = check_java(environ)
        assert (found.version, found.major) == (version, major)
        return
    with pytest.raises(CtsqlError, match="JAVA_UNSUPPORTED") as caught:
        check_java(environ)
    assert version in caught.value.message
    assert (caught.value.hint or "").startswith("Type: ")
    assert release == "4.2.0" or "needs 17 or 21" in (caught.value.detail or "")


def _no_path(home: Path) -> dict[str, str]:
    return {"PATH": str(home)}


def _home_without_java(home: Path) -> dict[str, str]:
    """spark-submit does not look at PATH then."""
    return {"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"}


def _stub(home: Path) -> dict[str, str]:
    """As on macOS: a java that only tells where to get one."""
    text = "The operation could not be completed. Unable to locate a Java Runtime."
    return _java(home, f"echo '{text}' >&2; exit 1")


def _broken(home: Path) -> dict[str, str]:
    environ = _java(home, "")
    (home / "bin" / "java").write_bytes(b"\x7fELF but broken")
    return environ


@pytest.mark.parametrize(
    ("make", "detail", "hint"),
    [
        (_no_path, "", "Type: "),
        (_home_without_java, "", "unset JAVA_HOME"),
        (_stub, "Unable to locate", ""),
        (_broken, "", ""),
    ],
)
def test_no_java(
    tmp_path: Path, make: Callable[[Path], dict[str, str]], detail: str, hint: str
) -> None:
    """It is said why there is none, and what to type."""
    with pytest.raises(CtsqlError, match="JAVA_NOT_FOUND") as caught:
        check_java(make(tmp_path))
    assert detail in (caught.value.detail or "")
    assert hint in (caught.value.hint or "")


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
        ("Exception: Remote cannot be specified with master.", "SPARK_ERROR", "SPARK_REMOTE"),
        ("", "SPARK_ERROR", "gateway exited"),
    ],
    ids=["ivy", "no java", "no such java", "class", "memory", "host", "cause", "remote", "nothing"],
)
def test_failures_are_recognised(chatter: str, condition: str, message: str) -> None:
    """The JVM's words lead to a condition with a hint; what PySpark raised is the cause."""
    raised = RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway exited before it said its port")
    found = explain_start_failure(raised, chatter=chatter)
    assert found.condition == condition
    assert message in f"{found.detail} {found.hint}".replace("Java gateway", "gateway")
    assert found.hint
    assert explain_start_failure(found) is found, "explained once"
    assert found.__cause__ is raised
    assert "\tat " not in str(found)


def test_start_asks_for_java_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before PySpark is imported or anything is fetched."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CtsqlError, match="JAVA_NOT_FOUND"):
        start_spark({"spark.master": "local[1]"})


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


@pytest.mark.parametrize("fetches", [True, False])
def test_one_process_fetches_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetches: bool
) -> None:
    """Another one waits for it; a start that fetches nothing does not."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def start_jvm(*_: object) -> None:
        folder = ivy_jars_folder().parent
        folder.mkdir(exist_ok=True)
        lock = FileLock(folder / "ctsql.lock")
        with pytest.raises(Timeout) if fetches else nullcontext():
            lock.acquire(blocking=False)
        raise OSError("seen")

    monkeypatch.setattr("ctsql.runtime.spark.start.session.start_jvm", start_jvm)
    settings = {"spark.jars.packages": "a:b:1"} if fetches else {}
    with pytest.raises(CtsqlError, match="seen"):
        start_spark(settings)


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
