"""A file that rows are written to: it replaces the one at its path when all is written.

The rows are written to a file in the same folder. An error leaves what was at the path as it was.
What is no regular file, as a pipe or ``/dev/stdout``, is written at once.
"""

import io
import os
import uuid
from pathlib import Path


class OutputFile(io.TextIOWrapper):
    """A text file in UTF-8 that appears at its path by :meth:`publish`.

    Raises:
        OSError: the path cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self._target = os.path.realpath(path)
        self._beside: str | None = None
        if os.path.exists(self._target) and not os.path.isfile(self._target):
            file = open(self._target, "wb")  # noqa: SIM115  closed with this object
        else:
            file = self._open_beside()
        super().__init__(file, encoding="utf-8", newline="")

    def _open_beside(self) -> io.BufferedWriter:
        folder, name = os.path.split(self._target)
        mode = None
        if os.path.exists(self._target):
            with open(self._target, "r+b") as old:  # raises if it may not be written
                mode = os.fstat(old.fileno()).st_mode & 0o777
        beside = os.path.join(folder, f".{name[:50]}.{uuid.uuid4().hex}.tmp")
        file = open(beside, "xb")  # noqa: SIM115  closed with this object
        self._beside = beside
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        return file

    @property
    def is_empty(self) -> bool:
        """Whether no row is in it yet; never for what is written at once."""
        if self._beside is None:
            return False
        self.flush()
        return os.path.getsize(self._beside) == 0

    def publish(self) -> None:
        """Replace the file at the path now; what is written later is in it, too."""
        if self._beside is not None:
            self.flush()
            os.replace(self._beside, self._target)
            self._beside = None

    def close(self) -> None:
        """Close; what is not published is removed."""
        beside, self._beside = self._beside, None
        try:
            super().close()
        finally:
            if beside is not None:
                os.unlink(beside)


def publish_if_file(out: object) -> None:
    """Let rows that have no end be seen while they are written."""
    if isinstance(out, OutputFile):
        out.publish()
