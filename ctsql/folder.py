"""The .sql files of a folder, as texts."""

from collections.abc import Mapping
from pathlib import Path

from ctsql.catalog.errors import misuse
from ctsql.catalog.spans import Source
from ctsql.variables import substitute


def sql_files(folder: Path, variables: Mapping[str, str] | None = None) -> list[Source]:
    """The .sql files of a folder and of the folders in it, in order of name.

    Hidden files and folders are left out. Each is called by its path, beginning with the folder's.
    Variables are replaced as in scripts.

    Raises:
        INVALID_USAGE: there is no such folder, no file in it, or a file is no UTF-8 text.
        OSError: a file cannot be read.
    """
    if not folder.is_dir():
        raise misuse(f"there is no folder {folder}")
    files = [
        path
        for path in sorted(folder.rglob("*.sql"), key=lambda p: p.relative_to(folder).parts)
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    ]
    if not files:
        detail = "With no definition at all, nothing would be left of a warehouse."
        raise misuse(f"there is no .sql file in {folder}", detail)
    return [sql_file(path, variables) for path in files]


def sql_file(path: Path, variables: Mapping[str, str] | None = None) -> Source:
    """One file; raises as :func:`sql_files` does."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        message = f"{path} is not UTF-8 text"
        detail = f"Byte {problem.start} is none."
        raise misuse(message, detail) from problem
    return Source(substitute(text, variables or {}), str(path))
