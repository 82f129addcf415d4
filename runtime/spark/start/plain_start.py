"""Whether Spark is started as it comes: by a local master, and without extra configuration.

Then paths are those of the local disk, Delta's JARs may stand on the class path, and the JVM may
have options of ours. Needs no import of Spark.
"""

import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

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
"""Environment variables by which Spark is configured."""


def is_plain(master: str | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a start is plain. Args: master: Spark's; None for the default, which is local."""
    return (
        _LOCAL.fullmatch(master or LOCAL) is not None
        and not any(environ.get(name) for name in CONFIGURED_BY)
        and not any((home / "conf").exists() for home in _homes(environ))
    )


def configured(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """What ``spark-defaults.conf`` says of a setting, as Spark finds that file; None for nothing.

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
    """The keys and values of a file of Java's properties; behind a backslash a line goes on."""
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
    """A text without the escapes of Java's properties."""

    def one(match: re.Match[str]) -> str:
        sign = match[1]
        return chr(int(sign[1:], 16)) if len(sign) > 1 else _ESCAPES.get(sign, sign)

    return _ESCAPED.sub(one, text)


def spark_home() -> Path:
    """Spark's folder, in a plain start."""
    return _homes(os.environ)[0]


def _homes(environ: Mapping[str, str]) -> list[Path]:
    """Where Spark may be: PySpark's own folder, or the one that is given."""
    spec = find_spec("pyspark")
    own = [] if spec is None or spec.origin is None else [Path(spec.origin).parent]
    home = environ.get("SPARK_HOME")
    return [Path(home)] if home else own
