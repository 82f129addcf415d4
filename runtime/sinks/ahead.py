"""Waiting changes of a task, computed ahead of their commits in one Spark job.

Where the planner says that a body takes the inserted rows one by one (:mod:`planner.together`), the
rows of all the Ts that wait go through it at once, each with the number of its T, and what comes
out is written with one file, at most, for each T. Every T still gets a commit of its own: who
reads the output cannot tell the difference, and a crash in between loses files that nobody names.

F1: only Ts at which the input did nothing but insert, of one definition, in their order, without
    one left out between the first and the last.
F2: files that no commit took are deleted when the catch-up ends, however it ends.
F3: where the body cannot be computed over all of them nothing is kept; each T is computed by
    itself, and the one at fault fails as it would have.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctsql.catalog.errors import DataError, StatementError, error
from ctsql.catalog.items import Item
from ctsql.planner.lowering import Context, lower_inserts
from ctsql.planner.together import NUMBER, by_row, numbered
from ctsql.runtime.batches import StagedFile
from ctsql.runtime.commits import Change
from ctsql.runtime.objects import Movement, Objects
from ctsql.runtime.sinks.few import unadaptive
from ctsql.runtime.sinks.runs import SNAPSHOT, Run
from ctsql.runtime.sources import StoredSources
from ctsql.runtime.spark_errors import converted

RUNS_MIN = 3
RUNS_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9_.=-]+")
_PARTITION = re.compile(r"(?:.*/)?part-(\d+)-")


@dataclass
class _Numbered(StoredSources):
    """The rows that many Ts inserted into one input, with the numbers of the Ts."""

    rows: DataFrame | None = None

    def inserts(self, object_id: str, at: int) -> DataFrame:
        """All of them."""
        assert self.rows is not None  # made with them
        return self.rows


class Ahead:
    """What is staged for Ts that are not due yet."""

    def __init__(self, objects: Objects, item: Item) -> None:
        """Nothing is staged."""
        self.objects = objects
        self.item = item
        self._waiting: list[Run] = []
        self._staged: dict[int, list[StagedFile]] = {}

    @contextmanager
    def over(self, runs: Sequence[Run]) -> Iterator[None]:
        """Over a catch-up of these runs; what was not taken is deleted (F2)."""
        self._waiting = sorted(runs, key=lambda r: r.time)
        try:
            yield
        finally:
            left = [f for files in self._staged.values() for f in files]
            self._waiting, self._staged = [], {}
            if left:
                paths = {path for file in left for path in file.own_files()}
                self.objects.table(self.item).discard(paths)

    def take(self, run: Run) -> list[StagedFile] | None:
        """The files of a run, computed now with those after it; None when it is to run alone."""
        if run.time not in self._staged:
            self._compute([r for r in self._waiting if r.time >= run.time])
        return self._staged.pop(run.time, None)

    def _compute(self, waiting: Sequence[Run]) -> None:
        if len(waiting) < RUNS_MIN:
            return
        _, plan = self.objects.in_force(self.item, waiting[0].time)
        if not by_row(plan):
            return
        runs: list[Run] = []
        for run in waiting[:RUNS_MAX]:
            if run.revision != waiting[0].revision or not self._only_inserts(run):
                break
            runs.append(run)
        if len(runs) < RUNS_MIN:
            return
        # Whatever comes of it, these are not tried together again.
        self._waiting = [r for r in self._waiting if r.time > runs[-1].time]
        ((object_id, _),) = runs[0].movements
        rows = self._rows(object_id, [movement for ((_, movement),) in (r.movements for r in runs)])
        if rows is None:
            return
        session = self.objects.gateway.session
        context = Context(session, _Numbered(self.objects, rows=rows), runs[0].time)
        try:
            with converted(), unadaptive(session):
                made = lower_inserts(numbered(plan.transaction), context, NUMBER)
                placed = made.repartitionById(len(runs), F.col(NUMBER)).drop(NUMBER)
                staged = self.objects.table(self.item).begin().stage(placed)
        except (DataError, StatementError):
            return  # F3
        self._staged = {run.time: [] for run in runs}
        for file in staged:
            self._staged[runs[_partition(file)].time].append(file)

    def _only_inserts(self, run: Run) -> bool:
        """Did one input only insert rows, and a known number of them?"""
        if len(run.movements) != 1:
            return False
        ((object_id, movement),) = run.movements
        item = self.objects.item(object_id)
        return (
            movement.version != SNAPSHOT
            and self.objects.change_of(item, movement) is Change.APPEND
            and self.objects.rows_inserted(item, movement) is not None
        )

    def _rows(self, object_id: str, movements: Sequence[Movement]) -> DataFrame | None:
        """The rows of some movements with their numbers; None when files cannot be told apart."""
        table = self.objects.table(self.objects.item(object_id))
        numbers: dict[str, int] = {}
        versions: list[int] = []
        for number, movement in enumerate(movements):
            for version in range(movement.before + 1, movement.version + 1):
                adds = [a for a in table.commit_at(version).adds if a.data_change]
                versions += [version] if adds else []
                for add in adds:
                    name = add.path.rsplit("/", 1)[-1]
                    if not _NAME.fullmatch(name) or numbers.setdefault(name, number) != number:
                        return None
        session: Any = self.objects.gateway.session
        known = session.createDataFrame(list(numbers.items()), f"__ct_name STRING, {NUMBER} INT")
        rows = table.added_rows(versions)
        columns = [F.col("`" + c.replace("`", "``") + "`") for c in rows.columns]
        written = F.substring_index(F.col("_metadata.file_path"), "/", -1)
        named = rows.select(*columns, written.alias("__ct_name"))
        return named.join(F.broadcast(known), "__ct_name").drop("__ct_name")


def _partition(file: StagedFile) -> int:
    """The number of the partition that a file was written from: Spark's writers name it so."""
    found = _PARTITION.match(file.path)
    if found is None:
        raise error(
            "INTERNAL_ERROR",
            invariant="a written file's name tells its partition",
            detail=file.path,
        )
    return int(found[1])
