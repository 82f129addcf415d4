r"""``\copy``: COPY with a file of this machine, or with what is typed or shown.

Typed and shown rows pass through a file in a temporary folder.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TextIO

from ctsql.catalog.errors import error, misuse
from ctsql.catalog.locations import location_fault
from ctsql.rendering.output_file import user_path

_SHAPE = re.compile(
    r"(?P<what>.+\s)(?P<way>FROM|TO)\s+(?P<file>STDIN|STDOUT|'(?:[^']|'')*'|[^\s'()]+)"
    r"(?P<options>\s*(WITH\s*)?(\(.*\))?)",
    re.IGNORECASE | re.DOTALL,
)
_END = "\\."  # the line that ends typed rows, as in psql


@contextmanager
def copy_statement(argument: str, lines: Iterable[str], out: TextIO) -> Iterator[str]:
    r"""The COPY statement of ``\copy argument``, and what to show of the written rows afterwards.

    Args:
        lines: of STDIN, up to ``\.`` or their end. out: where STDOUT is shown.

    Raises:
        INVALID_STATEMENT: the argument is not COPY's. INVALID_USAGE: the input is not UTF-8.
    """
    match = _SHAPE.fullmatch(argument)
    way = match["way"].upper() if match else ""
    if match is None or match["file"].upper() == ("STDOUT" if way == "FROM" else "STDIN"):
        message = r"\copy takes what COPY takes, with STDIN or STDOUT for a file"
        hint = r"Type: \copy t FROM 'x.csv', or \copy (SELECT 1) TO STDOUT (FORMAT json)"
        raise error("INVALID_STATEMENT", message=message, hint=hint)
    with tempfile.TemporaryDirectory(prefix="ctsql-copy-") as folder:
        between = Path(folder) / "rows.csv"
        if match["file"].upper() == "STDIN":
            with between.open("w", encoding="utf-8", newline="") as stream:
                try:
                    stream.writelines(takewhile(_goes_on, lines))
                except UnicodeDecodeError as problem:
                    message = "the rows are not UTF-8 text"
                    raise misuse(message, f"Byte {problem.start} is not valid.") from problem
        yield _statement(match, between)
        if match["file"].upper() == "STDOUT" and between.exists():
            with between.open(encoding="utf-8", newline="") as stream:
                for line in stream:
                    out.write(line)
            out.flush()


def _goes_on(line: str) -> bool:
    return line.rstrip("\r\n") != _END


def _statement(match: re.Match[str], between: Path) -> str:
    name = match["file"]
    if name.upper() in ("STDIN", "STDOUT"):
        path = str(between)
    else:
        if fault := location_fault(name.strip("'")):
            raise misuse(f"the file {name} {fault}")
        path = str(user_path(name.strip("'").replace("''", "'")).absolute())
        path += "/" if name.strip("'").endswith("/") else ""
    uri = f"file:{path}".replace("'", "''")
    return f"COPY {match['what']}{match['way']} '{uri}'{match['options']}"
