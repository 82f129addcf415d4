"""A file that is written: Spark's one part, under the name that was asked for."""

from types import SimpleNamespace
from typing import Any

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.syntax.ast import FileRef
from ctsql.runtime.warehouse.stores import copy_files


class Rows:
    """A DataFrame, and its writer, that notes where it writes."""

    def __init__(self) -> None:
        self.write = self
        self.places: list[str] = []

    def save(self, place: str) -> None:
        """Note it."""
        self.places.append(place)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self


class Gateway:
    """A store where a pattern means what it says only if its signs are escaped."""

    def __init__(self) -> None:
        self.moves: list[tuple[str, str]] = []
        self.deletions: list[str] = []

    def qualify(self, location: str) -> str:
        """It is a full URI."""
        return location

    def entries(self, location: str) -> list[str]:
        """Nothing is there."""
        return []

    def path_exists(self, location: str) -> bool:
        """No."""
        return False

    def glob(self, pattern: str) -> list[str]:
        """The one part, unless a sign in the folder's name counts as one of the pattern."""
        folder = pattern.removesuffix("/part-*")
        plain = folder.replace("\\[", "(").replace("\\]", ")")
        is_escaped = "[" not in plain and "]" not in plain
        place = plain.replace("(", "[").replace(")", "]")
        return [f"{place}/part-0"] if is_escaped else []

    def move_file(self, location: str, target: str) -> None:
        """Note it."""
        self.moves.append((location, target))

    def delete_tree(self, location: str) -> None:
        """Note it."""
        self.deletions.append(location)


@pytest.mark.parametrize("folder", ["file:/out", "file:/out[1]"])
def test_a_folder_may_have_signs_of_patterns(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is none."""
    functions: Any = SimpleNamespace(count=lambda _: Rows(), lit=lambda _: None)
    monkeypatch.setattr(copy_files, "F", functions)
    monkeypatch.setattr(copy_files, "Observation", lambda: SimpleNamespace(get={"n": 3}))
    rows: Any = Rows()
    gateway: Any = Gateway()
    span = Source("x", "<test>").whole()
    file = FileRef(path=f"{folder}/a.csv", span=span, format="csv", options=())
    assert copy_files.write_file(gateway, rows, file, overwrite=False) == 3
    (beside,) = rows.places
    assert gateway.moves == [(f"{beside}/part-0", f"{folder}/a.csv")]
    assert gateway.deletions == [beside]
