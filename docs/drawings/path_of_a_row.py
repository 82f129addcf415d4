"""Prints the modules that a row enters: python docs/drawings/path_of_a_row.py.

In a new warehouse that is warm: from an INSERT to the task's commit, and to the view's. Each module
once, in order of the first call, with the function that is called.
"""

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import ctsql

DEFINITIONS = """
CREATE TABLE f (k INT, v INT);
CREATE CONTINUAL TASK t (k INT, v INT) ON INPUT f AS (
    DELETE FROM t WHERE k IN (SELECT k FROM f); INSERT INTO t SELECT k, v FROM f);
CREATE MATERIALIZED VIEW m WITH (REFRESH POLICY = incremental) AS
    SELECT k, sum(v) AS s FROM f GROUP BY k;
"""
WARM_UP_ROUNDS = 4


@contextmanager
def _noted(modules: dict[str, str]) -> Iterator[None]:
    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("ctsql."):
            modules.setdefault(module, frame.f_code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def paths(con: ctsql.Connection) -> dict[str, dict[str, str]]:
    """By step the modules that it enters, each with its first function."""
    steps: dict[str, Callable[[], object]] = {
        "INSERT": lambda: con.execute("INSERT INTO f VALUES (7, 7)"),
        "task": lambda: con.execute("SELECT * FROM t").fetchall(),
        "view": lambda: con.execute("SELECT * FROM m").fetchall(),
    }
    con.execute(DEFINITIONS)
    for _ in range(WARM_UP_ROUNDS):
        for step in steps.values():
            step()
    found: dict[str, dict[str, str]] = {}
    for name, step in steps.items():
        with _noted(found.setdefault(name, {})):
            step()
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ctsql.connect(f"{folder}/warehouse") as opened:
        for name, modules in paths(opened).items():
            lines = [f"    {module:60} {function}" for module, function in modules.items()]
            sys.stdout.write("\n".join([f"{name}: {len(modules)} modules", *lines, ""]))
