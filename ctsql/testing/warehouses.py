"""A warehouse for each test, with the objects that it needs and no rows.

Creating objects takes longer than testing them. So tests that need the same objects share a
template, which is never written again. Each test gets a copy of its files. Locations in the logs
are changed to the copy's, a path of the same length.
"""

import itertools
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.names import Name, fold, quote
from ctsql.catalog.spans import Source
from ctsql.connection.dispatch import run
from ctsql.planner.folder import FileDefinition, Folder
from ctsql.planner.syntax import parse
from ctsql.planner.testing import StandIn, TestPlan, made_for_columns
from ctsql.runtime.engine import Engine
from ctsql.runtime.log import clock

_LOG_FILES = (".json", ".crc")


@dataclass(frozen=True, slots=True)
class Template:
    """A warehouse to copy: its location, and the T through which it is complete."""

    path: Path
    time: int


@dataclass(slots=True)
class Warehouses:
    """The warehouses of one run, below a temporary folder."""

    connection: Connection
    folder: Folder
    root: Path
    _templates: dict[object, Template | CtsqlError] = field(default_factory=dict)
    _columns: dict[Name, str] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=partial(itertools.count, 1))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def with_connection(self, connection: Connection) -> "Warehouses":
        """The same run's, for another thread, with its own connection."""
        return replace(self, connection=connection)

    def template(self, plan: TestPlan) -> Template:
        """The warehouse with a test's objects; an error of its creation is raised each time."""
        with self._lock:  # created once, even if several threads need it
            return self._template(plan)

    def _template(self, plan: TestPlan) -> Template:
        tables = tuple((stand_in, self._columns_of(stand_in)) for stand_in in plan.stand_ins)
        key = (
            plan.made_at,
            tuple(plan.schemas),
            tuple((stand_in.name, columns) for stand_in, columns in tables),
            tuple(definition.name for definition in plan.definitions),
        )
        template = self._templates.get(key)
        if template is None:
            try:
                template = self._make(plan.schemas, tables, plan.definitions, plan.made_at)
            except CtsqlError as problem:
                template = problem
            self._templates[key] = template
        if isinstance(template, CtsqlError):
            raise template
        return template

    def copy(self, template: Template) -> Path:
        """A copy of a template, for one test."""
        folder = self.root / f"c{next(self._numbers):07}"
        copy_warehouse(template.path, folder)
        return folder

    def _make(
        self,
        schemas: Sequence[str],
        tables: Sequence[tuple[StandIn, str]],
        definitions: Sequence[FileDefinition],
        at: int,
    ) -> Template:
        path = self.root / f"t{next(self._numbers):07}"
        connection = self.connection
        connection._move_to(str(path))
        with clock.standing(at), connection._running("the objects of a test") as engine:
            for schema in schemas:
                self._run(engine, f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
            for stand_in, columns in tables:
                self._run(engine, f"CREATE TABLE {stand_in.name.qualified()} ({columns})")
            for definition in definitions:
                connection.search_schema = definition.schema
                run(connection, engine, definition.statement, ())
            newest = engine.mint()  # so the rows of a test are changes
            forget_tables(engine)
        return Template(path, newest)

    def _run(self, engine: Engine, text: str) -> None:
        run(self.connection, engine, parse(Source(text, "<test>").whole()), ())

    def _columns_of(self, stand_in: StandIn) -> str:
        if stand_in.columns:
            return ", ".join(
                f"{quote(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}"
                for c in stand_in.columns
            )
        column_list = self._columns.get(stand_in.name)
        if column_list is None:
            span = stand_in.ref.span
            definitions = made_for_columns(stand_in.name, self.folder, span)
            schemas = {fold(s): s for d in definitions for s in (d.schema, d.name.schema)}
            self._make(list(schemas.values()), (), definitions, 0)
            with self.connection._running("columns") as engine:
                item = engine.refresh_catalog().get(stand_in.name, span=span)
                columns = engine.relations.columns_now(item)
            column_list = ", ".join(f"{quote(c.name)} {c.type}" for c in columns)
            self._columns[stand_in.name] = column_list
        return column_list


def forget_tables(engine: Engine) -> None:
    """Drop the caches of a warehouse's tables, after its last use."""
    for location in list(engine.gateway.open_tables):
        engine.gateway.forget(location)


def copy_warehouse(source: Path, target: Path) -> None:
    """Copy the files of a closed warehouse on this disk to a path of equal length."""
    before, after = str(source).encode(), str(target).encode()
    for path in source.rglob("*"):
        target_path = target / path.relative_to(source)
        if path.is_dir():
            target_path.mkdir(parents=True, exist_ok=True)
            continue
        target_path.parent.mkdir(parents=True, exist_ok=True)
        if path.name.startswith("."):
            continue  # locks, and checksums of files that change here
        if path.suffix in _LOG_FILES:
            target_path.write_bytes(path.read_bytes().replace(before, after))
        else:
            shutil.copyfile(path, target_path)
