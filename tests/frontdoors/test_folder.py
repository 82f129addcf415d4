"""The .sql files of a folder: which are read, in which order, and what is refused."""

from pathlib import Path

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.folder import sql_files


def test_files_in_order_of_name(tmp_path: Path) -> None:
    """Files of folders below come where their names sort; hidden ones and other endings do not."""
    for name in ("b.sql", "a/2.sql", "a/1.sql", ".git/x.sql", "a/.x.sql", "c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("CREATE TABLE :t (k INT)")
    found = sql_files(tmp_path, {"t": "one"})
    assert [Path(s.name).relative_to(tmp_path).as_posix() for s in found] == [
        "a/1.sql", "a/2.sql", "b.sql",
    ]  # fmt: skip
    assert {s.text for s in found} == {"CREATE TABLE one (k INT)"}


def test_refused(tmp_path: Path) -> None:
    """No folder, an empty one, and a file that is no text are refused by name."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "x.sql").write_bytes(b"SELECT \xff")
    (tmp_path / "none").mkdir()
    for folder, told in (("missing", "no folder"), ("none", "no .sql file"), ("bad", "UTF-8")):
        with pytest.raises(CtsqlError, match=told):
            sql_files(tmp_path / folder)
