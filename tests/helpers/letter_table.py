"""A small Delta table to test the write handle on."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ctsql.api import Connection
from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta.table import Gateway
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.log.write_handle import Committed, Output, OutputBatch

APP = "test:output"
PROPERTIES = (
    "'delta.enableDeletionVectors' = 'true', 'delta.enableInCommitTimestamps' = 'true', "
    "'delta.enableChangeDataFeed' = 'true', 'delta.checkpointInterval' = '1000'"
)


class Letters:
    """A Delta table with a column of letters, and handles on it."""

    def __init__(self, con: Connection, folder: Path) -> None:
        self.spark = con.spark
        self.folder = folder
        self.spark.sql(
            f"CREATE TABLE delta.`{folder}` (k STRING) USING delta TBLPROPERTIES ({PROPERTIES})"
        )
        self.gateway = Gateway(self.spark)
        self.app = APP

    def handle(self) -> Output:
        """A handle with nothing known, as a new process would have."""
        return Output(self.gateway.table(str(self.folder)), self.app)

    def frame(self, letters: Iterable[str]) -> Any:
        """Rows."""
        values = ", ".join(f"('{x}')" for x in letters)
        return self.spark.sql(f"SELECT * FROM VALUES {values} AS v (k)").coalesce(1)

    def batch(self, output: Output, lower: int, upper: int, updates: Any) -> OutputBatch:
        """A batch with updates staged."""
        by_time: dict[int, list[str]] = {}
        for letter, time in updates:
            by_time.setdefault(time, []).append(letter)
        batch = output.batch(lower, upper)
        with discard_on_error([batch]):
            for time, letters in by_time.items():
                batch.at(time).stage(self.frame(letters))
        return batch

    def letters(self) -> Counter[str]:
        """What readers see now."""
        table = self.gateway.table(str(self.folder))
        return Counter(row["k"] for row in table.frame(table.version()).collect())

    def victims(self, output: Output, letters: str) -> list[tuple[str, list[int]]]:
        """Where one row for each of some letters is stored, by file."""
        left = Counter(letters)
        found: dict[str, list[int]] = {}
        table = self.gateway.table(str(self.folder))
        for row in table.locate_rows(table.version()).orderBy(FILE_COLUMN, ROW_COLUMN).collect():
            if left[row["k"]]:
                left[row["k"]] -= 1
                found.setdefault(row[FILE_COLUMN], []).append(row[ROW_COLUMN])
        assert not left.total(), left
        return list(found.items())


def at_upper(table: Letters, upper: int) -> Output:
    """A handle on the table, brought to an upper."""
    output = table.handle()
    assert output.fetch_recent_upper() == 0
    if upper:
        assert isinstance(output.compare_and_append([], expected=0, new=upper), Committed)
    return output
