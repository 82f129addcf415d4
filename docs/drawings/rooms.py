"""Writes the table of rooms in docs/architecture.md: python docs/drawings/rooms.py.

The order is that of the import contract in pyproject.toml, what is in a room the first line of its
docstring.
"""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms -->\n", "<!-- end of rooms -->"
ROOMS_MAX_DEPTH = 3


def _file_of(module: str) -> Path:
    path = ROOT / "ctsql" / module.removeprefix("ctsql").lstrip(".").replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _purpose(module: str) -> str:
    docstring = ast.get_docstring(ast.parse(_file_of(module).read_text("utf-8"))) or ""
    return re.sub(r":\w+:`|``", "`", docstring.splitlines()[0])


def _layers() -> list[list[str]]:
    """The rooms of the contract, from top to bottom; those of a layer together."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"]
    return [[room.strip(" ()") for room in layer.replace("|", ":").split(":")] for layer in layers]


def _rows() -> list[str]:
    rows, seen = ["| room | what is in it |", "|---|---|"], set[str]()
    for layer in _layers():
        for module in layer:
            room = ".".join(module.split(".")[:ROOMS_MAX_DEPTH])
            if room in seen or (room.count(".") < ROOMS_MAX_DEPTH - 1 and "runtime" in room):
                continue
            seen.add(room)
            is_folder = _file_of(room).name == "__init__.py"
            path = room.removeprefix("ctsql.").replace(".", "/")
            path = path if path.startswith(("runtime", "planner", "catalog")) else f"ctsql/{path}"
            rows.append(f"| `{path}{'/' if is_folder else '.py'}` | {_purpose(room)} |")
    return rows


def document() -> str:
    """The document with the table as it is now."""
    before, rest = DOCUMENT.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n".join(_rows()) + "\n" + END + after


if __name__ == "__main__":
    DOCUMENT.write_text(document(), "utf-8")
