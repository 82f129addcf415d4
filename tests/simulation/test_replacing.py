"""A view that is replaced under kills, races and lost answers; and that mistakes are noticed.

Processes replace one view, also by other columns, while others refresh it. Rows name their
definition. At every commit the rows are of definitions with the columns that the table has, those
of the definition that the commit names, and exactly that query's as of its T; and no commit is of
an older definition than one before it (see :mod:`ctsql.runtime.warehouse.replaced_views`).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from pyspark.errors import PySparkRuntimeError

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.dependencies import fingerprint_of
from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, ObjectKind
from ctsql.catalog.schemas import Column
from ctsql.planner.nodes import ViewWrite
from ctsql.runtime.delta.log import reshaping
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.statements.definitions import cutover
from ctsql.runtime.statements.definitions.cutover import Redefinition, cut_over
from ctsql.runtime.views import sink
from ctsql.runtime.views.strategies import recompute
from ctsql.runtime.warehouse import output_columns, replaced_views
from ctsql.runtime.warehouse.sources import StoredSources
from ctsql.runtime.warehouse.versions import DEFINITION, REVISION
from tests.simulation import definitions as world
from tests.simulation.memory_log import Rows
from tests.simulation.memory_store import Bag, Folder, SentCommit, schema_text
from tests.simulation.mistakes import NOTICED, check_noticed
from tests.simulation.model import require
from tests.simulation.model_engine import ModelEngine
from tests.simulation.process import MemoryEngine, Process
from tests.simulation.simulation import Simulation, ran

pytestmark = pytest.mark.thorough

VIEW, SOURCE = "shown", "s0"
DEFINITIONS = ("x1", "x2", "y1", "z1")
"""The first letter is the first column's name."""


def _item(tag: str) -> Item:
    text = (
        f"CREATE MATERIALIZED VIEW {VIEW} ({tag[0]}, k, v) WITH (REFRESH POLICY = full) "
        f"AS SELECT '{tag}', k, v FROM {SOURCE}"
    )
    columns = (Column(tag[0], "string"), *world.COLUMNS)
    return world.entry(VIEW, ObjectKind.MATERIALIZED_VIEW, text, [SOURCE], 0, columns)


TAGS = {_item(tag).definition.text: tag for tag in DEFINITIONS}


def _first(schema: str) -> str:
    """The name of the first column, as which a definition's is told."""
    return str(json.loads(schema)["fields"][0]["name"])


def _begins_with(schema: str, columns: Sequence[Column]) -> bool:
    return _first(schema) == columns[0].name


def _find_missing_column(warehouse: Any, item: Item) -> CtsqlError | None:
    """Asked for the definition that a process knows, which may be an older or a newer one."""
    if _begins_with(warehouse.relations.table(item).schema_text(), item.columns):
        return None
    return error("STORED_DATA_INVALID", what=str(item.name), detail="It has other columns.")


def _shown_under(rows: Rows, there: Sequence[Column], columns: Sequence[Column]) -> Rows:
    """Rows of other columns have NULL in the first one."""
    if there[0].name == columns[0].name:
        return rows
    return Rows([(None, *row[1:]) for row in rows.rows], rows.places)


def _tagged(tag: str | None, rows: Bag) -> Bag:
    return Counter({(tag, *row): n for row, n in rows.items()})


class Replacing(Simulation):
    """One such run.

    Attributes:
        anew: how often the table got other columns; columns_since: the T of the last time.
        refusal_count: how often a read was to be run again; loss_count: how often another process
            was first to replace it.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.queries = ReplacingEngine()
        self.processes = [Replacer(self, p.number) for p in self.processes]
        self.anew = self.refusal_count = self.loss_count = 0
        self.revision = self.columns_since = 0

    @contextmanager
    def patched(self) -> Iterator[None]:
        # Types are compared by Spark; here a name tells the columns of one definition from others.
        with (
            super().patched(),
            mock.patch.object(output_columns, "begins_with", _begins_with),
            mock.patch.object(sink, "find_missing_column", _find_missing_column),
            mock.patch.object(cutover, "check_takes_columns"),
            mock.patch.object(reshaping, "shown_under", _shown_under),
        ):
            yield

    def set_up(self) -> None:
        super().set_up()
        self.store.make(VIEW)
        engine = Process(self, 97).start()
        made = replace(_item("x1"), created_at=engine.mint())
        folder = self.store.folders[VIEW]
        folder.schemas[-1] = schema_text(made.columns)
        engine.catalog_store.change(lambda c: c.with_items([made]))

    def _committed(self, folder: Folder, commit: Commit, attempt: SentCommit) -> None:
        super()._committed(folder, commit, attempt)
        if folder.location != VIEW:
            return
        revision = commit.metadata.get(REVISION, 0)
        said = commit.metadata.get(DEFINITION)
        if said is None:
            return
        require(
            revision >= self.revision,
            "[never-older-on-newer]: an older definition",
            revision,
            self.revision,
        )
        self.revision = revision
        self.anew += commit.changes_schema
        tag, at = self._tag(said), commit.metadata["upper"] - 1
        if commit.changes_schema:
            self.columns_since = at
        held = folder.contents(commit.version)
        column = _first(folder.schemas[commit.version])
        require(tag[0] == column, "[own-columns-only]: rows under other columns", tag, column)
        wanted = _tagged(tag, self.model.contents(SOURCE, at))
        require(held == wanted, "other contents than at T", at, held, wanted)

    def _tag(self, fingerprint: str) -> str:
        catalog = Catalog.of([world.item(SOURCE, 0)])
        return next(t for t in DEFINITIONS if fingerprint_of(catalog, _item(t)) == fingerprint)

    def _finish(self) -> None:
        super()._finish()
        last = Replacer(self, 96)
        engine = last.start()
        last.show(engine)
        (newest,) = (i for i in engine.catalog if i.id == VIEW)
        column = _first(self.store.folders[VIEW].schemas[-1])
        require(column == newest.columns[0].name, "the columns of the newest definition", column)


class ReplacingEngine(ModelEngine):
    """One that knows all definitions of the view."""

    def view_rows(self, view: ViewWrite, sources: Any, at: int, *, small: bool = False) -> Rows:
        """Its rows say of which definition they are."""
        if view.object_id != VIEW:
            return super().view_rows(view, sources, at)
        tag = next(t for d, t in TAGS.items() if d.endswith(view.desired.sql.span.text))
        return Rows(_tagged(tag, sources.contents(SOURCE, at).bag()).elements())

    def schema_text(self, item: Item) -> str:
        """Its columns, by which its definition is told."""
        return schema_text(item.columns)


class Replacer(Process):
    """A process that also replaces the view, and reads it."""

    simulation: Replacing

    def _any(self, engine: MemoryEngine, matches: Callable[[Item], bool]) -> Item | None:
        return super()._any(engine, lambda i: i.id != VIEW and matches(i))

    def statement(self, engine: MemoryEngine) -> None:
        """Often one about the view."""
        more = [super().statement, self.replace_it, self.show]
        what: Callable[[MemoryEngine], None] = self.simulation.rng.choices(more, [2, 1, 2])[0]
        self.doing = what.__name__
        what(engine)

    def replace_it(self, engine: MemoryEngine) -> None:
        """CREATE OR REPLACE MATERIALIZED VIEW, as its statement does it."""
        wanted = _item(self.simulation.rng.choice(DEFINITIONS))

        now = engine.refresh_catalog().items[VIEW]
        definition = replace(wanted.definition, number=now.revision + 1)
        item = replace(now, definition=definition, columns=wanted.columns)
        cut_over(engine, Redefinition(bound_on=engine.catalog, changes=((now, item),)))

    def show(self, engine: MemoryEngine) -> None:
        """A strict read, by the definition that this process knows then."""
        engine.refresh_catalog()
        at = engine.advance_to_read([engine.relations.item(VIEW)])
        item = engine.relations.item(VIEW)
        try:
            rows: Any = StoredSources(engine.warehouse).contents(VIEW, at)
        except CtsqlError as problem:
            if problem.condition != "VIEW_REPLACED":
                raise
            self.simulation.refusal_count += 1
            return
        held = self.simulation.model.contents(SOURCE, at)
        # Of two definitions with the same columns the older may have been first at this T.
        alike: list[str | None] = [t for t in DEFINITIONS if t[0] == item.columns[0].name]
        if at < self.simulation.columns_since:
            alike.append(None)  # the rows of then, under the columns of now
        found = rows.bag()
        require(found in [_tagged(t, held) for t in alike], "another read", at, found, held)

    def _explained(self, problem: CtsqlError) -> None:
        if problem.condition == "ALTERED_MEANWHILE":  # of two that replace it at once the second
            self.simulation.loss_count += 1
            return
        super()._explained(problem)


SEEDS = range(100, 220)
SEEDS_MAX = 900


def test_rows_are_of_the_definition_in_force() -> None:
    """[never-older-on-newer] and [own-columns-only] at every commit and read.

    The runs change columns and refuse reads.
    """
    runs = [ran(Replacing(seed)) for seed in SEEDS]
    assert sum(r.anew for r in runs) > 50
    assert sum(r.refusal_count for r in runs) > 0


MUTATIONS: dict[str, tuple[object, str, object]] = {
    "rows of an older definition count as rows of the new one": (
        replaced_views,
        "is_by_another",
        lambda *_: False,
    ),
    "the difference is written under other columns": (
        recompute,
        "awaits_columns",
        lambda *_: False,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation_is_caught(name: str) -> None:
    """A run of some seed says what is wrong."""
    # Whether a table has other columns than it should is a question to Spark, which is not there.
    noticed = (*NOTICED, PySparkRuntimeError)
    check_noticed(
        name, MUTATIONS[name], lambda seed: ran(Replacing(seed)), SEEDS_MAX, noticed=noticed
    )
