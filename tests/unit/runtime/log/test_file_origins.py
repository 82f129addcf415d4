"""Which commit wrote a file, and which files it may have copied, is told from the log."""

import json
from typing import Any

import pytest

from ctsql.runtime.log.actions import Commit, parse_commit
from ctsql.runtime.log.table_changes import FileOrigin, file_origins, replaced_files


def commit_of(version: int, text: str) -> Commit:
    """A commit: ``+a`` adds a file, ``-a`` takes it out, ``~a`` gives it another vector."""
    lines = ['{"commitInfo": {"operation": "X"}}']
    for mark, path in ((word[0], word[1:]) for word in text.split()):
        action = {"path": path, "size": 1, "dataChange": True}
        if mark in "-~":
            lines.append(json.dumps({"remove": action}))
        if mark in "+~":
            lines.append(json.dumps({"add": action}))
    return parse_commit(version, "\n".join(lines), modified_ms=0)


class _Log:
    """A log in memory; commits below ``oldest`` were cleaned up."""

    def __init__(self, commits: list[Commit], oldest: int = 0) -> None:
        self.commits, self.oldest = commits, oldest

    def has(self, version: int) -> bool:
        return self.oldest <= version < len(self.commits)

    def commit_at(self, version: int) -> Commit:
        return self.commits[version]


def _log(*texts: str, oldest: int = 0) -> Any:
    """A log of such commits."""
    return _Log([commit_of(v, text) for v, text in enumerate(texts)], oldest)


CASES = [
    (("+a", "+b"), 0, {"a": FileOrigin(0), "b": FileOrigin(1)}),
    (("+a", "~a +b"), 0, {"a": FileOrigin(0), "b": FileOrigin(1)}),  # an UPDATE with vectors
    (("+a", "-a +b"), 0, {"b": FileOrigin(1, copied_from=("a",))}),  # one without; compaction
    (("+a +b", "-a ~b +c"), 0, {"b": FileOrigin(0), "c": FileOrigin(1, copied_from=("a",))}),
    (("+a +b", "-a"), 0, {"b": FileOrigin(0)}),  # a file that is deleted is copied into none
    (("+a +b", "-a ~b"), 0, {"b": FileOrigin(0)}),
    (("+a", "+b"), 1, {"a": None, "b": FileOrigin(1)}),
    (("+a", "~a"), 1, {"a": None}),
]


@pytest.mark.parametrize(("texts", "oldest", "expected"), CASES)
def test_file_origins(
    texts: tuple[str, ...], oldest: int, expected: dict[str, FileOrigin | None]
) -> None:
    """A file's origin is the commit that added it first, if the log still has that."""
    found = file_origins(_log(*texts, oldest=oldest), list(expected), len(texts) - 1)
    assert found == expected


def test_replaced_files() -> None:
    """Only a commit that adds a new file copies rows."""
    assert replaced_files(commit_of(0, "-a -b +c")) == ("a", "b")
    assert replaced_files(commit_of(0, "-a ~b")) == ()
