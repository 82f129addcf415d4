"""Checks what Spark needs before it starts: a Java, Delta's JAR files, the configuration.

Each known failure becomes one sentence and a hint; PySpark shows only that the gateway exited. Run
as a module, it checks Java with the standard library alone and exits with 1 if there is none.

Spark's ``--packages`` has Ivy resolve all dependencies of Delta at each start. Delta needs two JARs
beyond Spark's (:data:`JARS`): if Ivy's folder has them they are named directly. That needs no
network, and a start takes 4.4 s instead of 6.4 s (two cores).

In a *plain start* the master is local and Spark has no extra configuration. Then paths are those of
the local disk, Delta's JARs may be on the class path, and the JVM may have ctsql's options.

Source: Spark's docs/index.md, "Spark runs on Java 17/21/25"; ``delta/pip_utils.py`` for the Maven
coordinate. The texts of failures are Spark 4.2's and the JVM's.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ctsql.catalog.errors import CtsqlError, error, sentence_of
from ctsql.runtime.spark.versions import at_least, parse, pyspark_release

LOCAL = "local[*]"
_KEY_END = re.compile(r"(?<!\\)(?:\s*[=:]\s*|\s+)")
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LOCAL = re.compile(r"local(\[[^\[\]]*\])?")
CONFIGURED_BY = (
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)
"""Environment variables that configure Spark."""


def is_local(master: str | None) -> bool:
    """Whether a master runs tasks in the driver's JVM; ``master`` None for the default."""
    return _LOCAL.fullmatch(master or LOCAL) is not None


def is_plain(master: str | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a start is plain; ``master`` None for the default, which is local."""
    return (
        is_local(master)
        and not any(environ.get(name) for name in CONFIGURED_BY)
        and not any((home / "conf").exists() for home in _homes(environ))
    )


def configured(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The value of a setting in ``spark-defaults.conf``; None without one.

    Source: Spark's documentation, "Dynamically Loading Spark Properties"; ``java.util.Properties``.
    """
    own = environ.get("SPARK_CONF_DIR")
    folders = [Path(own)] if own else [home / "conf" for home in _homes(environ)]
    setting = None
    for file in (folder / "spark-defaults.conf" for folder in folders):
        text = file.read_text("utf-8", errors="replace") if file.is_file() else ""
        for key, value in _properties(text):
            if key == name:
                setting = value or None  # the last one counts
    return setting


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """The keys and values of a Java properties file; a backslash continues a line."""
    lines = iter(text.splitlines())
    for line in lines:
        entry = line.lstrip()
        if entry[:1] in ("", "#", "!"):
            continue
        while (len(entry) - len(entry.rstrip("\\"))) % 2:
            entry = entry[:-1] + next(lines, "").lstrip()
        key, *value = _KEY_END.split(entry, maxsplit=1)
        yield _plain(key), _plain("".join(value)).strip()


def _plain(text: str) -> str:
    """Unescape a text of Java's properties."""

    def one(match: re.Match[str]) -> str:
        sign = match[1]
        return chr(int(sign[1:], 16)) if len(sign) > 1 else _ESCAPES.get(sign, sign)

    return _ESCAPED.sub(one, text)


def spark_home() -> Path:
    """Spark's folder, in a plain start."""
    return _homes(os.environ)[0]


def _homes(environ: Mapping[str, str]) -> list[Path]:
    """Spark's folder: ``SPARK_HOME``, or PySpark's own."""
    spec = find_spec("pyspark")
    own = [] if spec is None or spec.origin is None else [Path(spec.origin).parent]
    home = environ.get("SPARK_HOME")
    return [Path(home)] if home else own


def check_spark_home(environ: Mapping[str, str] = os.environ) -> str:
    """PySpark's release; raises SPARK_ERROR if ``SPARK_HOME`` has another, but for the patch."""
    installed, home = pyspark_release(), environ.get("SPARK_HOME", "")
    for jar in Path(home).glob("jars/spark-core_*.jar") if home else ():
        found = jar.stem.split("-", maxsplit=2)[2]
        if parse(found)[:2] != parse(installed)[:2]:
            message = f"SPARK_HOME is Spark {found}, and PySpark is {installed}"
            hint = "Type: unset SPARK_HOME   PySpark has its own Spark"
            raise error("SPARK_ERROR", message=message, detail=f"It is {home}.", hint=hint)
    return installed


JAVA_OLDEST = 17  # the oldest release Spark 4.2 runs on
JAVA_OF_HADOOP_3_4 = 22  # the newest with Subject.getSubject, which Spark 4.0 and 4.1 call
JAVA_SECONDS_MAX = 30  # a JVM that takes longer to say its version will not run Spark

SCALA = "2.13"
IVY_FOLDER = ".ivy2.5.2"  # Spark 4's own, so that it never meets another tool's Ivy cache

# What Delta needs beyond what Spark ships. Found by trying: with the first alone, CREATE TABLE
# fails on a missing class; with both, create, insert, update and delete with deletion vectors,
# merge, change feed, OPTIMIZE, VACUUM, time travel, ALTER, checkpoints and streams run.
JARS = (
    "io.delta_delta-spark_{spark}_{scala}-{delta}.jar",
    "io.delta_delta-storage-{delta}.jar",
)
COORDINATE = "io.delta:delta-spark_{spark}_{scala}:{delta}"

_VERSION = re.compile(r'version "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java: its program, its version as printed, and its major number."""

    program: Path
    version: str
    major: int


def major_version(version: str) -> int:
    """The major number of a Java version; raises ValueError for another text.

    >>> [major_version(v) for v in ("17.0.15", "1.8.0_392", "21", "17-ea", "25+36-LTS")]
    [17, 8, 21, 17, 25]
    """
    numbers = re.match(r"(?:1\.(?=\d))?(\d+)", version)
    if numbers is None:
        raise ValueError(f"not a Java version: {version!r}")
    return int(numbers.group(1))


def check_java(environ: Mapping[str, str] | None = None) -> Java:
    """Find the Java that Spark will use, and check that Spark can run on it.

    Searches as ``spark-submit``: only ``JAVA_HOME`` if it is set, otherwise ``PATH``.

    Raises:
        JAVA_NOT_FOUND: there is none, or it does not start.
        JAVA_UNSUPPORTED: it is older, or newer, than this Spark needs.
    """
    environ = os.environ if environ is None else environ
    program = java_program(environ)
    output = _java_says(program)
    version = _VERSION.search(output)
    if version is None:
        detail = f'"{program} -version" did not print a version: {_first_line(output)}'
        raise error("JAVA_NOT_FOUND", detail=detail, hint=_install_hint())
    java = Java(program, version.group(1), major_version(version.group(1)))
    takes_all = java.major <= JAVA_OF_HADOOP_3_4 or find_spec("pyspark") is None or at_least(4, 2)
    if java.major < JAVA_OLDEST or not takes_all:
        needed = f"{JAVA_OLDEST}, 21 or 25" if takes_all else f"{JAVA_OLDEST} or 21"
        raise error(
            "JAVA_UNSUPPORTED",
            found=java.version,
            detail=f"{program} is Java {java.major}; Spark needs {needed}.",
            hint=_install_hint() + ", then set JAVA_HOME to it",
        )
    return java


def java_program(environ: Mapping[str, str]) -> Path:
    """The program of the Java that would be used; raises JAVA_NOT_FOUND."""
    name = "java.exe" if sys.platform == "win32" else "java"
    home = environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / name
        if not os.access(program, os.X_OK):
            detail = f"JAVA_HOME is {home}, but there is no {program}."
            hint = "Type: unset JAVA_HOME   or set it to a folder that holds bin/java"
            raise error("JAVA_NOT_FOUND", detail=detail, hint=hint)
        return program
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is None:
        detail = "JAVA_HOME is not set and there is no java on PATH."
        raise error("JAVA_NOT_FOUND", detail=detail, hint=_install_hint())
    return Path(on_path)


@lru_cache(maxsize=2)
def _java_says(program: Path) -> str:
    """The output of ``java -version``; empty for a program that only points to a download."""
    try:
        process = subprocess.run(
            [str(program), "-version"],
            capture_output=True,
            text=True,
            errors="replace",  # it also prints JAVA_TOOL_OPTIONS, in any encoding
            timeout=JAVA_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        detail = f"{program} does not start: {_first_line(str(problem))}"
        raise error(
            "JAVA_NOT_FOUND", detail=detail, hint=_install_hint(), cause=problem
        ) from problem
    return process.stderr + process.stdout


def _install_hint() -> str:
    if sys.platform == "darwin":
        return f"Type: brew install openjdk@{JAVA_OLDEST}"
    if sys.platform == "win32":
        return f"Type: winget install EclipseAdoptium.Temurin.{JAVA_OLDEST}.JDK"
    if shutil.which("dnf"):
        return f"Type: sudo dnf install java-{JAVA_OLDEST}-openjdk-headless"
    return f"Type: sudo apt install openjdk-{JAVA_OLDEST}-jre-headless"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "nothing was said")


def installed_versions() -> dict[str, str]:
    """The versions in the names of JARs: of Spark, Scala and Delta."""
    spark = ".".join(pyspark_release().split(".")[:2])
    return {"spark": spark, "scala": SCALA, "delta": metadata.version("delta-spark")}


def ivy_jars_folder() -> Path:
    """The folder of JARs fetched by Spark's Ivy, or put there by hand."""
    # Path.home() fails for a user without a home folder, as in containers.
    return Path(os.path.expanduser("~"), IVY_FOLDER, "jars")


def delta_jars(folder: Path | None = None) -> tuple[Path, ...]:
    """Delta's JARs in a folder, by default :func:`ivy_jars_folder`, if it has all; else none."""
    folder = ivy_jars_folder() if folder is None else folder
    jars = tuple(folder / name.format(**installed_versions()) for name in JARS)
    # Unlike Path.is_file it is no error if the folder may not be read.
    return jars if all(map(os.path.isfile, jars)) else ()


def delta_coordinate() -> str:
    """Delta's Maven coordinate."""
    return COORDINATE.format(**installed_versions())


def spark_builder_config(*, folder: Path | None = None) -> dict[str, str]:
    """``spark.jars`` or, if they must be fetched, ``spark.jars.packages`` with Delta's JARs.

    The configured entries are kept. ``folder`` as for :func:`delta_jars`.
    """
    jars = [str(jar) for jar in delta_jars(folder)]
    name = "spark.jars" if jars else "spark.jars.packages"
    mine = jars or [delta_coordinate()]
    # A setting of a builder takes the place of the one in spark-defaults.conf.
    entries = (one.strip() for one in (configured(name) or "").split(","))
    theirs = [one for one in entries if one and one not in mine]
    return {name: ",".join([*theirs, *mine])}


# Texts of failures, in the order they are looked for: Ivy's report also names hosts, so that it
# must come before the rows about the host's own name.
_JARS_MISSING = re.compile(
    r"unresolved dependenc|download failed|Server access error|MavenUtils|ivysettings|IvySettings",
    re.IGNORECASE,
)
_CLASS_TOO_NEW = re.compile(r"UnsupportedClassVersionError|class file version")
_NO_JAVA = re.compile(
    r"JAVA_HOME is not set|Unable to locate a Java Runtime|java: (command )?not found"
    r"|bin/java: No such file"
)
_KNOWN = (
    (
        re.compile(r"OutOfMemoryError|Could not reserve enough space|Cannot allocate memory"),
        "there was not enough memory to start Spark",
        "Free some memory, or give Spark less. Type: export SPARK_DRIVER_MEMORY=1g",
    ),
    (
        re.compile(r"BindException|UnknownHostException|Cannot assign requested address"),
        "Spark could not use this machine's network name",
        "Type: export SPARK_LOCAL_IP=127.0.0.1",
    ),
    (
        re.compile(r"No space left on device"),
        "there was no space left on the disk when Spark started",
        "Free some space, or set SPARK_LOCAL_DIRS to a folder on another disk",
    ),
    (
        re.compile(r"Remote cannot be specified with master"),
        "SPARK_REMOTE is set, and ctsql cannot use Spark Connect",
        "Type: unset SPARK_REMOTE",
    ),
    (
        re.compile(r"Could not parse Master URL|Master must either be"),
        "the master's URL is not valid",
        "Use local[*], spark://host:port, yarn or k8s://...",
    ),
)


def explain_start_failure(exc: BaseException, *, chatter: str = "") -> CtsqlError:
    """The error for a failed start of Spark; the caller raises it.

    Args:
        exc: PySpark's exception, which mostly says only that the gateway exited.
        chatter: the JVM's output until then.
    """
    if isinstance(exc, CtsqlError):
        return exc
    text = f"{chatter}\n{exc}"
    if _NO_JAVA.search(text):
        return error("JAVA_NOT_FOUND", detail=_cause_line(text), hint=_install_hint(), cause=exc)
    if _CLASS_TOO_NEW.search(text):
        return error(
            "JAVA_UNSUPPORTED",
            found="as it is",
            detail=_cause_line(text),
            hint=_install_hint() + ", then set JAVA_HOME to it",
            cause=exc,
        )
    if _JARS_MISSING.search(text):
        detail = f"{_coordinate_at_fault(text)} could not be fetched from any Maven repository."
        return error("JAR_DOWNLOAD_FAILED", detail=detail, hint=_download_hint(), cause=exc)
    for pattern, message, hint in _KNOWN:
        if pattern.search(text):
            return error(
                "SPARK_ERROR", message=message, detail=_cause_line(text), hint=hint, cause=exc
            )
    message = "Spark did not start"
    hint = "Run again with --debug to see Spark's whole output."
    return error("SPARK_ERROR", message=message, detail=_cause_line(text), hint=hint, cause=exc)


def _coordinate_at_fault(text: str) -> str:
    match = re.search(r"unresolved dependency: ([^:\s]+#[^;\s]+;[^:\s]+)", text)
    if match is None:
        return COORDINATE.format(**installed_versions())
    return match.group(1).replace("#", ":").replace(";", ":")


def _download_hint() -> str:
    names = " and ".join(name.format(**installed_versions()) for name in JARS)
    return (
        "Check the network and run it again. Behind a proxy type: "
        "export JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'. "
        "With a mirror: set spark.jars.ivySettings to its ivysettings.xml. "
        f"Without any network: put {names} into {ivy_jars_folder()}"
    )


def _cause_line(text: str) -> str:
    """The best line: the last ``Caused by``, else the first exception, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    exceptions = [line for line in lines if re.search(r"(Exception|Error)\b", line)]
    best = causes[-1:] or exceptions[:1] or lines[:1]
    return best[0].removeprefix("Caused by: ") if best else "It printed nothing."


def main() -> int:
    """Check Java and print what is wrong; the exit status is 1 then."""
    try:
        check_java()
    except CtsqlError as problem:
        lines = filter(None, (sentence_of(problem), problem.detail, problem.hint))
        sys.stderr.write("\n".join(lines) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
