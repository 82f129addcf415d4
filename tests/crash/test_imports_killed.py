"""Processes that import files are killed with SIGKILL at random moments: each file is in once.

``CTSQL_IMPORT_ROWS`` is how many rows each of the files has, for a run by hand: 2,000,000, say.
"""

import os
import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from tests.crash.killed_processes import (
    SECONDS_TO_END,
    Child,
    Crew,
    crew_of,
    stored,
    table_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

FILES = 5
KILLS_WANTED = 3
KILLS_MAX = 40
"""After so many the importing process is left alone, so that it ends."""
ROWS_COUNT = int(os.environ.get("CTSQL_IMPORT_ROWS") or 20_000)


def write_file(folder: Path, n: int, kind: str) -> None:
    """A file of rows that say which file they are of; it is there as a whole or not at all."""
    rows = pa.table({"file": pa.repeat(n, ROWS_COUNT), "i": range(ROWS_COUNT)})
    made = folder.parent / f"{n}.{kind}"
    if kind == "csv":
        pc.write_csv(rows, made)
    else:
        pq.write_table(rows, made)
    folder.mkdir(exist_ok=True)
    made.rename(folder / made.name)


def check_once(crew: Crew) -> None:
    """Every file is in, whole and once."""
    table = table_of(crew.warehouse, "t")
    found = stored(table, "file, count(*) AS n, sum(i) AS s, count(DISTINCT i) AS d", by="file")
    total = ROWS_COUNT * (ROWS_COUNT - 1) // 2
    assert sorted(found) == [(n, ROWS_COUNT, total, ROWS_COUNT) for n in range(FILES)]
    assert crew.report().total() >= KILLS_WANTED
    for child in crew.children:
        assert "Traceback" not in child.log.read_text(), child.said()


def lives(crew: Crew, child: Child, *, most: float) -> bool:
    """Whether a process comes to its end within some seconds, which must be a good one."""
    until = time.monotonic() + most
    while time.monotonic() < until:
        if not child.is_running():
            child.finish(SECONDS_TO_END)
            return True
        time.sleep(0.01)
    crew.kill(child)
    return False


@pytest.mark.parametrize(("how", "kind"), [("copy", "csv"), ("writer", "parquet")])
def test_files_that_a_program_copies(how: str, kind: str, warehouse: Path, tmp_path: Path) -> None:
    """COPY is whole or not at all, so that who looks first copies once; a writer knows."""
    for n in range(FILES):
        write_file(tmp_path / "files", n, kind)
    with crew_of(warehouse, tmp_path) as crew:
        draw = random.Random(crew.seed)
        first = crew.program("import_files", how, tmp_path / "files")
        first.wait_for("ready")
        began = time.monotonic()
        first.wait_for("ack")
        lasting = time.monotonic() - began  # of the slowest file, as Spark is cold
        crew.kill(first)
        for _ in range(KILLS_MAX):
            child = crew.program("import_files", how, tmp_path / "files")
            child.wait_for("ready")
            if lives(crew, child, most=lasting * draw.uniform(0, 3)):
                break
        else:
            crew.run("import_files", how, tmp_path / "files")
        check_once(crew)
