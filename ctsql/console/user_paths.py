"""Paths as people type them: ``~`` is their home folder."""

import os
from pathlib import Path


def user_path(text: str) -> Path:
    """The path, with the home folder in place of ``~``; unchanged if there is no such user.

    >>> user_path("~nobody-of-this-name/a.sql")
    PosixPath('~nobody-of-this-name/a.sql')
    """
    path = Path(text)
    try:
        return path.expanduser()
    except RuntimeError:  # opening it will fail
        return path


def check_output(path: str | Path, warehouse: str) -> None:
    """Refuse to write where ctsql or Delta keeps its own files: NOT_SUPPORTED."""
    from ctsql.runtime.warehouse.stores.location import check_outside

    check_outside(os.path.abspath(path), warehouse, "a file")
