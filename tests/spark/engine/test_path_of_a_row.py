"""The path of a row in docs/architecture.md is the one that a warm tick takes."""

import re
import runpy
from pathlib import Path

from ctsql.api import Connection

DOCS = Path(__file__).parents[3] / "docs"


def test_each_module_of_the_path_is_entered(con: Connection) -> None:
    """From an INSERT to a task's commit, and from a change to a view's."""
    script = runpy.run_path(str(DOCS / "drawings" / "path_of_a_row.py"))
    entered = {module for step in script["paths"](con).values() for module in step}
    text = (DOCS / "architecture.md").read_text("utf-8")
    rows = text[text.index("## From an INSERT") :]
    files = re.findall(r"`([\w/]+)\.py`", rows)
    modules = {f.removeprefix("ctsql/").removesuffix("/__init__").replace("/", ".") for f in files}
    named = {f"ctsql.{m}" for m in modules if not m.startswith("docs.")}
    assert named <= entered
