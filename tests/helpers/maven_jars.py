"""JARs that Maven fetches for tests."""

import subprocess
from pathlib import Path

Artifact = tuple[str, ...]
"""The group, the name and the version, and maybe a classifier."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>ctsql</groupId><artifactId>jars</artifactId>
<version>1</version><dependencies>{}</dependencies></project>"""
_FIELDS = ("groupId", "artifactId", "version", "classifier")


def jars_of(folder: Path, *artifacts: Artifact, alone: bool = False) -> list[Path]:
    """The JARs of some artifacts and what they need, fetched into a folder unless they are there.

    Args:
        alone: without what they need.
    """
    place = folder / artifacts[0][1]
    if not any(place.glob("*.jar")):
        place.mkdir(parents=True, exist_ok=True)
        pom = place / "pom.xml"
        pom.write_text(_POM.format("".join(map(_dependency, artifacts))))
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={place}", *(["-DexcludeTransitive=true"] if alone else [])]
        subprocess.run(command, check=True)
    return sorted(place.glob("*.jar"))


def _dependency(artifact: Artifact) -> str:
    named = zip(_FIELDS, artifact, strict=False)
    return f"<dependency>{''.join(f'<{k}>{v}</{k}>' for k, v in named)}</dependency>"
