"""Who may import whom: the layers, and what stays free of Spark."""

import subprocess
import sys
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
        "ctsql.runtime.warehouse.schedules",
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
