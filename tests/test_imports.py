"""Who may import whom: the layers, and what stays free of Spark."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HEAVY = ("pyspark", "delta", "py4j", "pandas", "ctsql.runtime")


def _loaded_after(statement: str, root: Path) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "ctsql.catalog.errors",
        "ctsql.catalog.items",
        "ctsql.planner.ivm",
        "ctsql.planner.nodes",
        "ctsql.planner.rules",
        "ctsql.planner.syntax.ast",
        "ctsql.planner.binding",
    ],
)
def test_pure_module_loads_nothing_heavy(module: str, root: Path) -> None:
    """Planning needs no Spark, not even its import."""
    assert _loaded_after(f"import {module}", root).isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "module",
    [
        "ctsql.runtime.tasks.sink_state",
        "ctsql.runtime.views.mint",
        "ctsql.runtime.warehouse.sink_decisions",
        "ctsql.runtime.warehouse.refresh_times",
    ],
)
def test_decisions_load_no_spark(module: str, root: Path) -> None:
    """What a sink or a schedule decides is decided without Spark."""
    loaded = _loaded_after(f"import {module}", root)
    assert loaded.isdisjoint({"pyspark", "delta", "py4j"})


def test_the_face_is_light(root: Path) -> None:
    """``import ctsql`` and the command line's parser start without Spark."""
    assert _loaded_after("import ctsql", root).isdisjoint({"pyspark", "delta", "py4j", "sqlglot"})


def test_layers_hold(root: Path) -> None:
    """No import against the direction of the layers; the contracts stand in pyproject.toml."""
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([str(lint), "--no-cache"], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_has_its_place(root: Path) -> None:
    """A room that the contract does not name could import whatever it likes."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [c["layers"] for c in contracts["contracts"] if c["type"] == "layers"]
    named = {name.strip(" ()") for layer in layers for name in re.split(r"[|:]", layer)}
    for folder in ("runtime", "planner", "planner/ivm", "planner/syntax"):
        inside = {
            "ctsql." + str(path.relative_to(root).with_suffix("")).replace("/", ".")
            for path in (root / folder).iterdir()
            if path.suffix == ".py" or (path / "__init__.py").is_file()
        }
        split = {name for name in inside if any(n.startswith(f"{name}.") for n in named)}
        assert inside - named - split - {f"ctsql.{folder.replace('/', '.')}.__init__"} == set()
