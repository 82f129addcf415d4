"""Who may import whom: the layers, and what stays free of Spark."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

FRONT_MODULES_MAX = 20
SPARK = {"pyspark", "delta", "py4j"}
LINKED = {"catalog", "planner", "runtime"}
"""Their modules are imported by their names within ctsql, or every class would exist twice."""
PURE = "catalog.errors catalog.items planner.ivm planner.nodes planner.syntax.ast planner.binding"
DECISIONS = (
    "runtime.tasks.sink_state runtime.views.mint runtime.warehouse.sink_decisions "
    "runtime.warehouse.times.refresh_times"
)


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        ("", SPARK | {"sqlglot"}),
        ("cli.main shell.repl", SPARK | {"pyarrow", "pandas"}),
        (PURE, SPARK | {"pandas", "ctsql.runtime"}),
        (DECISIONS, SPARK),
    ],
    ids=["face", "command line and prompt", "planning", "decisions of sinks"],
)
def test_what_needs_no_spark_does_not_import_it(
    modules: str, without: set[str], root: Path
) -> None:
    """``import ctsql``, ``ctsql --help`` and the prompt start at once; planning is pure."""
    names = ", ".join(["ctsql", *(f"ctsql.{module}" for module in modules.split())])
    code = f"import {names}\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr
    assert without.union(LINKED).isdisjoint(done.stdout.split())


def test_every_room_has_its_place(root: Path) -> None:
    """A room that the contract does not name could import whatever it likes."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [c["layers"] for c in contracts["contracts"] if c["type"] == "layers"]
    named = {name.strip(" ()") for layer in layers for name in re.split(r"[|:]", layer)}
    for folder in (".", "runtime", "planner", "planner/ivm", "planner/syntax"):
        inside = {
            ".".join(path.relative_to(root).with_suffix("").parts)
            for path in (root / "ctsql" / folder).iterdir()
            if path.suffix == ".py" or (path / "__init__.py").is_file()
        }
        split = {name for name in inside if any(n.startswith(f"{name}.") for n in named)}
        own = ".".join((root / "ctsql" / folder / "__init__").relative_to(root).parts)
        assert inside - named - split - {own} == set()


@pytest.mark.parametrize(
    "room", sorted(p.parent.name for p in Path(__file__).parents[1].glob("ctsql/*/__init__.py"))
)
def test_front_doors_are_small_rooms(root: Path, room: str) -> None:
    """A room that is read in a sitting, and says in its ``__init__`` what is in it."""
    folder = root / "ctsql" / room
    if folder.is_symlink():
        return
    assert len(list(folder.glob("*.py"))) - 1 <= FRONT_MODULES_MAX
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


PRIVATE = re.compile(
    r"\b_(?:jvm|jdf|jsc|jsparkSession|jrdd|jc|origin|collect_as_arrow)\b"
    r"|\b(?:SparkContext|_sc|sparkContext)\._gateway\b|\blaunch_gateway\b|_active_spark_context"
    r'|(?<!"spark\.)\bsql\.(?:catalyst|execution|classic)\b'
    r"|\bsql\.delta\b(?!\.catalog\.DeltaCatalog\b)"
    r"|\b(?:dagScheduler|queryExecution|statusStore|PythonErrorUtils|PythonSQLUtils)\b"
    r"|\b(?:gateway|jvm|self)\.delta\b|\bhandle\.log\b"
)
"""What PySpark, Spark and Delta do not document; a setting's name for a user is documented."""
INTERNALS = ("runtime/spark/internals/", "runtime/delta/internals/")


def _modules(root: Path) -> dict[str, str]:
    """The texts of the product's modules, by name."""
    folders = (root / name for name in ("catalog", "planner", "runtime", "ctsql"))
    paths = (path for folder in folders for path in folder.rglob("*.py"))
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in paths}
    links = ("ctsql/catalog/", "ctsql/planner/", "ctsql/runtime/")
    return {name: text for name, text in texts.items() if not name.startswith(links)}


def test_private_parts_of_spark_and_delta_are_called_in_two_packages(root: Path) -> None:
    """A new release of Spark or Delta breaks what these packages list, and nothing else."""
    with_private_names = {
        name
        for name, text in _modules(root).items()
        if PRIVATE.search(text) and not name.startswith(INTERNALS)
    }
    assert with_private_names == set()


def test_private_names_are_found() -> None:
    """The test above would pass on a pattern that finds nothing."""
    for text in (
        "session._jvm.org",
        "rows._jdf.queryExecution()",
        "SparkContext._gateway",
        "jvm.org.apache.spark.sql.catalyst.trees",
        "org.apache.spark.sql.delta.DeltaLog",
        "self.gateway.delta.actions",
        "table.handle.log.update",
    ):
        assert PRIVATE.search(text), text
    assert not PRIVATE.search("org.apache.spark.sql.delta.catalog.DeltaCatalog; self._gateway.none")


def test_private_calls_say_what_is_lost_without_them(root: Path) -> None:
    """Each names the public API that does not exist, and what happens without the call."""
    kinds = re.compile(r"(?:Needed|A\s+fast\s+path|Optional):\s+without\s+it,")
    plain = {"singleton", "java_class", "scala_items", "class_name", "typed"}  # whatever is called
    plain |= {"setting", "without_code"}  # by a function of their module that says so
    unsaid = []
    for name, text in _modules(root).items():
        if not name.startswith(INTERNALS):
            continue
        for node in ast.parse(text).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            is_plain = isinstance(node, ast.ClassDef) and (node.decorator_list or node.bases)
            said = ast.get_docstring(node) or ""
            if is_plain or node.name in plain or ("public API" in said and kinds.search(said)):
                continue
            unsaid.append(f"{name}: {node.name}")
    assert unsaid == []
