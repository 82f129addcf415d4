"""Files for rows, and paths as people type them.

Rows are written to a draft in the same folder, which replaces the file at the path at the end. An
error leaves that file unchanged. Anything but a regular file, such as a pipe or ``/dev/stdout``, is
written directly.
"""

import io
import os
import uuid
from pathlib import Path


class OutputFile(io.TextIOWrapper):
    """A text file in UTF-8 that appears at its path by :meth:`publish`."""

    def __init__(self, path: str | Path) -> None:
        self._target = os.path.realpath(path)
        self._draft: str | None = None
        if os.path.exists(self._target) and not os.path.isfile(self._target):
            file = open(self._target, "wb")  # noqa: SIM115  closed with this object
        else:
            file = self._open_draft()
        super().__init__(file, encoding="utf-8", newline="")

    def _open_draft(self) -> io.BufferedWriter:
        folder, name = os.path.split(self._target)
        mode = None
        if os.path.exists(self._target):
            with open(self._target, "r+b") as old:  # raises if it may not be written
                mode = os.fstat(old.fileno()).st_mode & 0o777
        draft = os.path.join(folder, f".{name[:50]}.{uuid.uuid4().hex}.tmp")
        file = open(draft, "xb")  # noqa: SIM115  closed with this object
        self._draft = draft
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        return file

    @property
    def is_empty(self) -> bool:
        """Whether it has no row yet; always false for a file that is written directly."""
        if self._draft is None:
            return False
        self.flush()
        return os.path.getsize(self._draft) == 0

    def publish(self) -> None:
        """Replace the file at the path now; later rows are written to it, too."""
        if self._draft is not None:
            self.flush()
            os.replace(self._draft, self._target)
            self._draft = None

    def close(self) -> None:
        """Close, and delete rows that were not published."""
        draft, self._draft = self._draft, None
        try:
            super().close()
        finally:
            if draft is not None:
                os.unlink(draft)


def publish_if_file(out: object) -> None:
    """Publish the rows of an unbounded result while they are written."""
    if isinstance(out, OutputFile):
        out.publish()


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
    """Raise NOT_SUPPORTED for a path among ctsql's or Delta's own files."""
    from ctsql.runtime.warehouse.stores.location import check_outside

    check_outside(os.path.abspath(path), warehouse, "a file")
