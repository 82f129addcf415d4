"""A model of tasks: replays what a body means with plain Spark over the table before and after.

It knows nothing of change feeds, deletion vectors or bindings: what came and what went is the
difference of the table's rows, told apart exactly (:mod:`tests.differential.exact`). Rows are held
by the driver; CHAR and VARCHAR columns stay what they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.differential import exact
from tests.differential.battery_tables import World
from tests.differential.compare import Pair
from tests.differential.kinds import Kind
from tests.differential.tasks import TaskWay


@dataclass
class ModelTask:
    """A task and what its output must hold."""

    way: TaskWay
    kind: Kind
    rows: DataFrame | None = None
    schema: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """As it is told to people."""
        return f"{self.kind.name}, task: {self.way.name}"

    @property
    def task(self) -> str:
        """The name of the task and its output."""
        return f"k_{self.kind.name}_{self.way.name}".replace(" ", "_")


class Model:
    """Replays tasks over one world."""

    def __init__(self, world: World, tasks: Sequence[ModelTask]) -> None:
        self.world = world
        self.tasks = list(tasks)
        self._version = -1

    def create(self, task: ModelTask) -> None:
        """Create one with the snapshot of its input."""
        way = task.way
        columns = ""
        if way.columns is not None:
            columns = f"({way.filled(way.columns, task.kind, '', '')})"
        body = way.filled(way.body, task.kind, task.task, "")
        self.world.con.execute(
            f"CREATE CONTINUAL TASK {task.task} {columns} ON INPUT t AS ({body})"
        )
        stored = self.world.plain.read.format("delta").load(self.world.path(task.task))
        task.schema = stored._jdf.schema()
        task.rows = _held(self.world.plain, stored.where("false"), task.schema)

    def step(self) -> None:
        """The next version of ``t``; the first one is the snapshot."""
        plain, path = self.world.plain, self.world.path("t")
        newest = plain.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first()
        assert newest is not None  # a table has a version
        if newest.version == self._version:
            return
        is_first = self._version < 0
        came, went = self._difference(newest.version, is_first)
        self._version = newest.version
        if not came and not went:
            return
        for task in self.tasks:
            if came or (task.way.reads_deletes and went):
                assert task.rows is not None  # it was created
                before = f"before_{task.task}"
                task.rows.createOrReplaceTempView(before)
                meaning = task.way.filled(task.way.meaning, task.kind, "", before)
                task.rows = _held(plain, plain.sql(meaning), task.schema)

    def _difference(self, version: int, is_first: bool) -> tuple[bool, bool]:
        """Makes the views of what came and what went since the last step."""
        plain, path = self.world.plain, self.world.path("t")
        now = plain.read.format("delta").option("versionAsOf", version).load(path)
        schema = now._jdf.schema()
        text = exact.row(now.schema)
        both = now.selectExpr("*", f"{text} AS x", "1L AS n")
        if not is_first:
            was = plain.read.format("delta").option("versionAsOf", self._version).load(path)
            both = both.unionAll(was.selectExpr("*", f"{text} AS x", "-1L AS n"))
        both.createOrReplaceTempView("both")
        names = ", ".join(f"first({n}) AS {n}" for n in now.columns)
        net = plain.sql(f"SELECT {names}, sum(n) AS diff FROM both GROUP BY x HAVING sum(n) <> 0")
        long = plain.sql("SELECT 1L AS diff")._jdf.schema()
        held = _held(plain, net, schema.add(long.apply("diff")))
        held.createOrReplaceTempView("changed")
        every = ", ".join(now.columns)
        for name, sign in (("inserted", 1), ("deleted", -1)):
            rows = plain.sql(
                f"SELECT {every} FROM changed LATERAL VIEW explode(sequence(1L, abs(diff))) e AS i "
                f"WHERE sign(diff) = {sign}"
            )
            _held(plain, rows, schema).createOrReplaceTempView(name)
        return (
            not plain.table("inserted").isEmpty(),
            not plain.table("deleted").isEmpty(),
        )

    def pairs(self) -> list[Pair]:
        """Each task's output beside what it must hold."""
        found = []
        for task in self.tasks:
            assert task.rows is not None  # it was created
            task.rows.createOrReplaceTempView(f"model_{task.task}")
            query = f"SELECT * FROM model_{task.task}"
            found.append(Pair(task.name, query, self.world.path(task.task)))
        return found


def _held(session: SparkSession, rows: DataFrame, schema: Any) -> DataFrame:
    """The rows, held by the driver, under a schema that knows CHAR and VARCHAR."""
    made = session._jsparkSession.createDataFrame(rows._jdf.collectAsList(), schema)
    return DataFrame(made, session)
