"""What a user installs: one package, whole."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """The wheel, built from a copy of what it is built of; needs setuptools, no network."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, copy / name)
    for name in ("ctsql", "catalog", "planner", "runtime"):
        shutil.copytree(
            root / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), "."],
        cwd=copy,
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return zipfile.Path(built)


def _files(wheel: zipfile.Path) -> set[str]:
    return set(wheel.root.namelist())


def test_only_ctsql_is_installed(wheel: zipfile.Path) -> None:
    """General names such as ``planner`` stay free for others."""
    tops = {name.split("/")[0] for name in _files(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ctsql"}


def test_every_module_is_inside(wheel: zipfile.Path, root: Path) -> None:
    """What a link leads to is packed; a checkout without links would lose three packages."""
    wanted = {
        f"ctsql/{path.relative_to(root)}"
        for name in ("catalog", "planner", "runtime")
        for path in (root / name).rglob("*.py")
    }
    doors = (*(root / "ctsql").glob("*.py"), *(root / "ctsql").glob("*/*.py"))
    wanted |= {str(path.relative_to(root)) for path in doors}
    assert wanted - _files(wheel) == set()


def test_data_files_are_inside(wheel: zipfile.Path) -> None:
    """The marker is read by type checkers."""
    assert "ctsql/py.typed" in _files(wheel)


def test_the_status_page_needs_no_network(wheel: zipfile.Path, root: Path) -> None:
    """Every template, style, script and picture of the page is in the wheel."""
    page = root / "ctsql" / "status_page"
    folders = (page / "templates", page / "static")
    wanted = {str(path.relative_to(root)) for folder in folders for path in folder.iterdir()}
    assert len(wanted) >= 8
    assert wanted - _files(wheel) == set()


def test_the_command_is_declared(wheel: zipfile.Path) -> None:
    """Installing gives the ``ctsql`` command, and changes no other program, as pytest."""
    (points,) = [name for name in _files(wheel) if name.endswith("entry_points.txt")]
    declared = wheel.joinpath(points).read_text()
    assert declared.split() == ["[console_scripts]", "ctsql", "=", "ctsql.__main__:main"]
