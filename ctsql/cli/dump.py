"""``ctsql dump FOLDER``: a file of SQL for each object, numbered in the order in which they run."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ctsql.catalog.errors import misuse
from ctsql.console.user_paths import check_output

if TYPE_CHECKING:
    from ctsql.api import Connection


def write_dump(connection: "Connection", folder: Path) -> list[Path]:
    """Write the definitions of a warehouse into a folder, which is made if it is not there.

    ``ctsql -w NEW FOLDER/*.sql`` makes the same objects in another warehouse.

    Returns:
        the files, in order.

    Raises:
        INVALID_USAGE: there are files of SQL in the folder. NOT_SUPPORTED: it is one of ctsql or
        Delta. OSError: it cannot be written.
    """
    from ctsql.runtime.statements.inspect.dump import dump

    check_output(folder, connection.warehouse)
    if any(folder.glob("*.sql")):
        detail = "Those of objects that are gone would stay among the new ones."
        raise misuse(f"there are .sql files in {folder}", detail)
    with connection._running("dump") as engine:
        definitions = dump(engine)
    folder.mkdir(parents=True, exist_ok=True)
    width = len(str(len(definitions)))
    files = []
    for number, (name, text) in enumerate(definitions, start=1):
        plain = re.sub(r"[^\w.-]", "_", name)
        files.append(folder / f"{number:0{width}}_{plain}.sql")
        files[-1].write_text(text, encoding="utf-8")
    return files
