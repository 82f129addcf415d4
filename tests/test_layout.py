"""The tree is laid out as decision 68 says."""

import os
import re
from pathlib import Path

import pytest

LINKED = ("catalog", "planner", "runtime")


@pytest.mark.parametrize("package", LINKED)
def test_link_leads_to_its_folder(root: Path, package: str) -> None:
    """On a checkout without links the wheel would be built and lack the package."""
    link = root / "ctsql" / package
    assert link.is_symlink(), f"{link} is not a link: is core.symlinks off in git?"
    assert os.readlink(link) == f"../{package}"
    assert link.resolve() == root / package


def test_every_module_is_importable_by_its_path(root: Path) -> None:
    """A folder without ``__init__.py`` would be left out of the wheel without a word."""
    folders = {path.parent for name in LINKED for path in (root / name).rglob("*.py")}
    bare = sorted(str(f.relative_to(root)) for f in folders if not (f / "__init__.py").is_file())
    assert bare == []


def test_jobs_are_documented(root: Path) -> None:
    """``make`` alone lists the jobs; each one it lists is there."""
    makefile = (root / "Makefile").read_text()
    listed = set(re.findall(r"make ([\w-]+)  ", makefile.split("\n\n", 1)[0]))
    assert {"demo", "test", "rest", "test-all", "check", "venv", "slow", "bench", "clean"} <= listed
    for job in listed:
        assert re.search(rf"^{job}:", makefile, re.MULTILINE), job


def test_ci_runs_what_people_run(root: Path) -> None:
    """CI runs what the README names, ``make test``, then the other tests."""
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[-2:] == ["make test", "exec make rest"]


def _links(text: str) -> list[str]:
    return [
        target
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S))
        if not target.startswith(("http:", "https:", "#", "mailto:"))
    ]


def test_links_in_documents_resolve(root: Path) -> None:
    """A relative link in a document leads to a file."""
    broken = [
        f"{document.relative_to(root)}: {target}"
        for document in _documents(root)
        for target in _links(document.read_text())
        if not (document.parent / target.split("#")[0]).exists()
    ]
    assert broken == []


def _documents(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def _folders(top: Path) -> list[Path]:
    """The folders with tests below a folder, relative to it."""
    found = {path.parent.relative_to(top) for path in top.rglob("test_*.py")}
    assert found, f"no tests below {top}"
    return sorted(found)


def test_unit_tests_mirror_the_packages(root: Path) -> None:
    """``tests/unit/a/b`` has the tests of the package ``a/b``, and none of them needs a JVM."""
    unit = root / "tests" / "unit"
    without = [str(f) for f in _folders(unit) if not (root / f / "__init__.py").is_file()]
    assert without == []
    marked = [p.name for p in unit.rglob("test_*.py") if "pytest.mark.spark" in p.read_text()]
    assert marked == []


def test_spark_tests_mirror_the_rooms(root: Path) -> None:
    """``tests/spark/a`` has the tests on Spark of the room or module ``a``."""
    top = root / "tests" / "spark"
    rooms = {p.stem for p in (root / "runtime").iterdir()} | {"planner"}
    assert [str(f) for f in _folders(top) if str(f) not in rooms] == []


def test_every_test_stands_in_a_lane_of_its_own(root: Path) -> None:
    """A folder of tests that CONTRIBUTING.md does not name would be found by nobody."""
    named = (root / "CONTRIBUTING.md").read_text()
    folders = {
        p.relative_to(root / "tests").parts[0] for p in (root / "tests").rglob("*/test_*.py")
    }
    assert [f for f in sorted(folders) if f"`{f}/`" not in named] == []
