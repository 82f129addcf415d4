r"""``\copy``: which COPY it becomes, and what goes by way of a file."""

import io
from pathlib import Path

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.shell.copying import copy_statement


def _path_of(statement: str) -> Path:
    return Path(statement.partition("'file:")[2].partition("'")[0])


def test_what_is_typed_ends_at_a_mark() -> None:
    r"""``\.`` on a line of its own; what stands behind it is not taken."""
    typed = iter(["k\n", "1\n", "\\.\r\n", "SELECT 1;\n"])
    with copy_statement("t (k) FROM STDIN (HEADER true)", typed, io.StringIO()) as statement:
        path = _path_of(statement)
        assert statement == f"COPY t (k) FROM 'file:{path}' (HEADER true)"
        assert path.read_text() == "k\n1\n"
    assert not path.exists()
    assert list(typed) == ["SELECT 1;\n"]


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """With an error of ctsql's, which does not end the prompt."""
    lines = tmp_path / "typed"
    lines.write_bytes(b"k\n\xe9\n")
    with (
        lines.open(encoding="utf-8") as typed,
        pytest.raises(CtsqlError, match="not UTF-8 text"),
        copy_statement("t FROM STDIN", typed, io.StringIO()),
    ):
        raise AssertionError("there is no statement")


def test_what_is_written_is_shown() -> None:
    """Line by line, as it stands in the file."""
    out = io.StringIO()
    with copy_statement("(SELECT 1 AS a) TO STDOUT", [], out) as statement:
        _path_of(statement).write_text("a\n1\n")
    assert out.getvalue() == "a\n1\n"


def test_a_file_is_one_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its whole path, a quote in it doubled."""
    monkeypatch.chdir(tmp_path)
    with copy_statement("t FROM 'it''s.csv'", [], io.StringIO()) as statement:
        assert statement == f"COPY t FROM 'file:{tmp_path}/it''s.csv'"
