"""Tables of the simulation's store as scenarios need them: any columns, and statements of Spark's.

A statement of a user's on a table is a commit of a foreign writer, as it is for the engine.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import types as T
from sqlglot import exp

from ctsql.catalog.reserved_columns import FILE_COLUMN, ROW_COLUMN
from ctsql.runtime.delta.table_rows import CHANGE_TYPE
from ctsql.runtime.log.table_metadata import TableMetadata
from tests.scenarios.without_spark.kinds import NotModelled, columns_of
from tests.scenarios.without_spark.session import DuckSession, Frame, SparkRefusal
from tests.simulation.memory_log import MemoryGateway, MemoryTable
from tests.simulation.memory_store import (
    Fate,
    File,
    Folder,
    Row,
    SentCommit,
    Store,
    metadata_action,
)

_PLACES = T.StructType([T.StructField(FILE_COLUMN, T.StringType()),
                        T.StructField(ROW_COLUMN, T.LongType())])  # fmt: skip
_CHANGE = T.StructType([T.StructField(CHANGE_TYPE, T.StringType())])


class Warehouses(Store):
    """A store whose clock is the machine's."""

    @property
    def clock_ms(self) -> int:  # type: ignore[override]
        return int(time.time() * 1000)

    @clock_ms.setter
    def clock_ms(self, value: int) -> None:
        """It goes by itself."""


class Calm:
    """A way to the store on which nothing goes wrong."""

    name = "engine"

    def step(self, call: str, where: str) -> None:
        """Go on."""

    def fate(self, *, rows: bool) -> Fate:
        return Fate.ANSWERED

    def noted(self, what: str, *, rows: bool | None = None) -> None:
        """Nothing rare happens."""


class Gateway(MemoryGateway):
    """The store for one connection."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, Calm())
        self.session: Any = DuckSession(Commands(self).run)

    def qualify(self, location: str) -> str:
        """Locations are whole."""
        return location

    def delete_tree(self, location: str) -> None:
        for known in [k for k in self.store.folders if k.startswith(location)]:
            del self.store.folders[known]

    def create_table(self, location: str, columns: str, properties: Any) -> None:
        told = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.session.sql(
            f"CREATE TABLE delta.`{location}` ({columns}) USING delta TBLPROPERTIES ({told})"
        )

    def rows_of(self, rows: Any, columns: str) -> Any:
        schema = T.DataType.fromDDL(columns)
        assert isinstance(schema, T.StructType)
        return Frame(self.session, schema, rows)

    def table(self, location: str) -> "Table":
        if location not in self._tables:
            self._tables[location] = Table(self, self.store.folders[location])
        found = self._tables[location]
        assert isinstance(found, Table)
        return found


class Table(MemoryTable):
    """A table whose rows know their columns."""

    def _frame(self, rows: Iterable[Row], version: int | None, more: T.StructType) -> Frame:
        schema = self.schema if version is None else self.schema_at(version)
        return Frame(self.gateway.session, T.StructType([*schema, *more]), rows)

    def _rows(self, file: File, version: int | None) -> Iterator[tuple[int, Row]]:
        """The live rows of a file, with NULL in the columns that came after it."""
        width = len(self.schema if version is None else self.schema_at(version))
        return ((i, _padded(row, width)) for i, row in self.folder.rows(file))

    def frame(self, version: int) -> Any:
        return self.frame_of(self.files(version).values(), version)

    def frame_of(self, files: Iterable[File], version: int | None = None) -> Any:  # type: ignore[override]
        rows = (row for f in files for _, row in self._rows(f, version))
        return self._frame(rows, version, T.StructType([]))

    def locate_rows(self, version: int) -> Any:
        files = self.files(version).values()
        rows = ((*row, f.path, i) for f in files for i, row in self._rows(f, version))
        return self._frame(rows, version, _PLACES)

    def change_rows(self, first: int, last: int) -> Any:
        """What the commits first..last change, with ``_change_type``."""
        new, old = self.folder.contents(last), self.folder.contents(first - 1)
        width = len(self.schema_at(last))
        new, old = (Counter(_padded(r, width) for r in b.elements()) for b in (new, old))
        come = [(*row, "insert") for row in (new - old).elements()]
        gone = [(*row, "delete") for row in (old - new).elements()]
        return self._frame(come + gone, last, _CHANGE)

    def has_feature(self, name: str) -> bool:
        """Whether Delta needs a feature for this table: none here does."""
        return False

    @property
    def metadata(self) -> TableMetadata:
        return self.metadata_at(self.version())

    def files_count(self, version: int) -> int:
        return len(self.files(version))


class Commands:
    """The statements of Spark's that change tables."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def run(self, tree: exp.Expression) -> Frame | None:
        """Run a statement; None for one that is a query."""
        match tree:
            case exp.Create():
                self._create(tree)
            case exp.Insert():
                self._insert(tree)
            case exp.Update() | exp.Delete():
                self._change(tree)
            case exp.Query() | exp.Values():
                self._read_tables(tree)
                return None
            case _:
                raise NotModelled(type(tree).__name__.upper())
        return Frame(self._gateway.session, T.StructType([]), ())

    def _target(self, tree: exp.Expression) -> Table:
        """The table that a statement writes, of which NOT NULL is not kept here."""
        named = tree.find(exp.Table)
        assert named is not None
        table = self._gateway.table(named.name)
        if any(not f.nullable for f in table.schema):
            raise NotModelled("writing a table with NOT NULL")
        return table

    def _create(self, tree: exp.Create) -> None:
        table, said = tree.find(exp.Table), {}
        assert table is not None
        for one in tree.args["properties"].expressions if tree.args.get("properties") else ():
            if type(one) is exp.Property:
                said[one.name] = one.args["value"].name
            elif not isinstance(one, exp.FileFormatProperty | exp.SchemaCommentProperty):
                raise NotModelled(f"CREATE TABLE with {type(one).__name__}")
        schema, rows, store = columns_of(tree), (), self._gateway.store
        if isinstance(tree.expression, exp.Query):
            self._read_tables(tree.expression)
            made = self._gateway.session.query(tree.expression)
            schema, rows = made.schema, made.rows
        folder = store.folders[table.name] = Folder(store, table.name)
        actions = [json.dumps(metadata_action(said, schema.json()))]
        if rows:
            actions.append(folder.write_file(rows, "user").line("add", data_change=True))
        folder.append(SentCommit("user", -1, actions))

    def _insert(self, tree: exp.Insert) -> None:
        if tree.args.get("overwrite") or tree.args.get("by_name"):
            raise NotModelled("INSERT BY NAME or OVERWRITE")
        table = self._target(tree)
        into = table.schema.names
        if isinstance(tree.this, exp.Schema):
            into = [one.name for one in tree.this.expressions]
        source = tree.expression
        self._read_tables(source)
        if isinstance(source, exp.Values):
            source = exp.select("*").from_(exp.alias_(source, "v", table=True))
        given = self._gateway.session.query(source)
        if len(given.columns) != len(into):
            counts = {"insertColumns": str(len(given.columns)), "numColumns": str(len(into))}
            raise SparkRefusal("not as many", "INSERT_COLUMN_ARITY_MISMATCH", **counts)
        place = {name.lower(): f"v{i}" for i, name in enumerate(into)}
        values = [_stored(place.get(f.name.lower(), "NULL"), f) for f in table.schema]
        self._commit(table, given.toDF(*place.values()).select(*values))

    def _change(self, tree: exp.Update | exp.Delete) -> None:
        """UPDATE and DELETE: rows go, and with new values they come again."""
        table, session = self._target(tree), self._gateway.session
        self._read_tables(tree)
        session.hold(table.location, table.locate_rows(table.version()))
        new = {e.this.name.lower(): e.expression for e in tree.expressions}
        own = [exp.column(f.name, quoted=True) for f in table.schema]
        chosen = [new.get(column.name.lower(), column) for column in own]
        query = exp.select(*_PLACES.names, *chosen).from_(tree.this)
        query.set("where", tree.args.get("where"))
        names = [f"v{i}" for i in range(len(own))]
        found = session.query(query).toDF(*_PLACES.names, *names)
        stored = [_stored(name, f) for name, f in zip(names, table.schema, strict=True)]
        rows = found.select(*stored) if isinstance(tree, exp.Update) else None
        self._commit(table, rows, (row[:2] for row in found.rows))

    def _read_tables(self, tree: exp.Expression) -> None:
        """Let a statement read tables by their place."""
        for table in tree.find_all(exp.Table):
            if table.db == "delta":
                read = self._gateway.table(table.name)
                self._gateway.session.hold(table.name, read.frame(read.version()))
                table.set("db", None)

    def _commit(self, table: Table, rows: Frame | None, gone: Iterable[Row] = ()) -> None:
        """Commit rows that come, and the places of those that go; nothing for none."""
        by_file: dict[str, set[int]] = {}
        for path, number in gone:
            by_file.setdefault(path, set()).add(number)
        txn = table.begin()
        if by_file:
            deletes, _ = txn.stage_deletes([(p, frozenset(n)) for p, n in by_file.items()])
            txn.delete(deletes)
        if rows is not None and rows.rows:
            txn.add_files(txn.stage(rows))
        if by_file or (rows is not None and rows.rows):
            txn.commit(label="", epoch=0, metadata="")


def _padded(row: Row, width: int) -> Row:
    return (*row, *(None for _ in range(width - len(row))))


def _stored(value: str, field: T.StructField) -> str:
    return f"CAST({value} AS {field.dataType.simpleString()}) AS `{field.name}`"
