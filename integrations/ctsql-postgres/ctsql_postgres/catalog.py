"""Answers queries of ``pg_catalog`` and ``information_schema`` with DuckDB.

The relations have PostgreSQL's columns; their rows describe the warehouse's relations. sqlglot
translates a query; the macros in ``functions.sql`` stand for PostgreSQL's functions. Spark runs a
statement that reads any other relation.
"""

import datetime as dt
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from ctsql.catalog.errors import error, not_supported
from ctsql_postgres.dialect import Translated
from ctsql_postgres.values import BY_NAME, TEXT, PgColumn, column_of, parameter

if TYPE_CHECKING:
    from ctsql import Relation

PG, INFORMATION = "pgc", "infs"
"""DuckDB has schemas with PostgreSQL's names already."""
_SCHEMAS = {"pg_catalog": PG, "information_schema": INFORMATION}
_CANDIDATE = re.compile(
    r"\bpg_|\binformation_schema\b|\bcurrent_(?:schemas?|database|catalog|setting|user|role)\b"
    r"|\bsession_user\b|\bset_config\b|\breg(?:class|type|proc)\b|\bversion\s*\(|\bformat_type\b"
    r"|\b\w+_description\s*\(|\bhas_\w+_privilege\b|\btxid_current\b|\binet_\w+_addr\b",
    re.IGNORECASE,
)
_VERBS = ("select", "insert", "update", "delete", "table", "schema", "column", "group", "order")
_STARTS = ("select", "with", "(", "values")
_TYPES = {
    "b": "BOOLEAN", "d": "DOUBLE", "f": "FLOAT", "h": "SMALLINT", "i": "INTEGER", "l": "BIGINT",
    "s": "VARCHAR", "t": "TIMESTAMPTZ", "u": "UINTEGER",
}  # fmt: skip
_SQL_NAMES = {
    "bool": "boolean", "int2": "smallint", "int4": "integer", "int8": "bigint", "float4": "real",
    "float8": "double precision", "bpchar": "character", "varchar": "character varying",
    "char": '"char"', "time": "time without time zone", "timetz": "time with time zone",
    "timestamp": "timestamp without time zone", "timestamptz": "timestamp with time zone",
}  # fmt: skip
_KINDS = {"view": "v", "system table": "v", "materialized view": "m"}
_TEXT_TYPES = ("char", "name", "text", "regproc", "pg_node_tree", "aclitem", "regrole", "cstring")
_RESULT_TYPES = {
    "BOOLEAN": "bool", "SMALLINT": "int2", "INTEGER": "int4", "BIGINT": "int8", "UINTEGER": "oid",
    "HUGEINT": "numeric", "UBIGINT": "numeric", "FLOAT": "float4", "DOUBLE": "float8",
    "VARCHAR": "text", "TIMESTAMP WITH TIME ZONE": "timestamptz", "TIMESTAMP": "timestamp",
    "DATE": "date",
}  # fmt: skip
Answer = tuple[list[tuple[str, PgColumn]], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Asking:
    """The client's session, for functions such as ``current_user``."""

    user: str
    database: str
    schema: str
    process: int
    writes: bool
    settings: Mapping[str, str]


class Catalog:
    """The catalog of one warehouse. Use it in one thread at a time."""

    def __init__(self) -> None:
        self._duckdb: duckdb.DuckDBPyConnection | None = None  # until the first question
        self._loaded: object = None

    def _run(self, sql: str, values: Sequence[object] = ()) -> duckdb.DuckDBPyConnection:
        if self._duckdb is None:
            self._duckdb = duckdb.connect(":memory:", config={"threads": 1})
            self._make()
        return self._duckdb.execute(sql, values)

    def _make(self) -> None:
        self._run("SET TimeZone = 'UTC'; SET autoinstall_known_extensions = false")
        script = [f"CREATE SCHEMA {schema};" for schema in (PG, INFORMATION, "raw")]
        for schema, name, columns in _relations():
            defined = ", ".join(f'"{column}" {kind}' for column, kind in columns)
            script.append(f'CREATE TABLE {schema}."{name}" ({defined});')
        self._run("".join(script))
        self._set("started", dt.datetime.now(dt.UTC))
        for name in ("username", "schema", "database"):
            self._set(name, "")
        for name in ("process", "namespace", "writes"):
            self._set(name, 0)
        self._load("types", _TYPES_RAW, list(_types()))
        for name, schema in (
            ("objects", _OBJECTS),
            ("columns", _COLUMNS),
            ("schemas", _SCHEMAS_RAW),
        ):
            self._load(name, schema, [])
        self._run(_resource("functions.sql"))

    def _set(self, name: str, value: object) -> None:
        self._run(f"SET VARIABLE {name} = ?", [value])

    def _load(self, name: str, schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> None:
        assert self._duckdb is not None  # _run made it
        arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        self._duckdb.register("given", pa.Table.from_arrays(arrays, schema=schema))
        self._run(f"CREATE OR REPLACE TABLE raw.{name} AS SELECT * FROM given")
        self._duckdb.unregister("given")

    def question(self, statement: Translated) -> exp.Expr | None:
        """The parsed query, if a statement reads only the catalog; else None."""
        if statement.words[0] not in _STARTS or not _CANDIDATE.search(statement.source):
            return None
        return _read(_with_quoted_names(statement))

    def answer(
        self, question: exp.Expr, values: Sequence[object], relations: "list[Relation]", by: Asking
    ) -> Answer:
        """Columns and rows; raises CtsqlError."""
        self._refresh(relations, by)
        try:
            found = self._run(_for_duckdb(question, values, by))
            heads = [(name, _column(str(kind))) for name, kind, *_ in found.description or ()]
            return heads, found.fetchall()
        except duckdb.Error as problem:
            message = str(problem).partition("\n")[0].strip(" !.")
            what = "this question of the catalog"
            raise not_supported(None, what, why=f"{message}.") from problem

    def _refresh(self, relations: "list[Relation]", by: Asking) -> None:
        """Fill the relations again after a change in the warehouse, or for another client."""
        key = (by.user, by.database, relations)
        self._set("process", by.process)
        self._set("writes", by.writes)
        self._set("schema", by.schema)
        if key != self._loaded:
            self._set("username", by.user)
            self._set("database", by.database)
            self._fill(relations, by)
            self._loaded = key
        self._run(
            "SET VARIABLE namespace = (SELECT oid FROM raw.schemas WHERE name = ?)", [by.schema]
        )

    def _fill(self, relations: "list[Relation]", by: Asking) -> None:
        readable = [one for one in relations if one.columns]
        names = sorted({"default", *(one.schema for one in readable)})
        numbers = numbered([*(f"schema {name}" for name in names), *(one.id for one in readable)])
        schemas = [(11, "pg_catalog"), (12, "information_schema")]
        schemas += [(numbers[f"schema {name}"], name) for name in names]
        objects, columns = [], []
        for one in readable:
            oid, relkind = numbers[one.id], _KINDS.get(one.kind, "r")
            objects.append(
                (oid, one.schema, one.name, one.kind, relkind, one.comment, one.definition)
            )
            for number, column in enumerate(one.columns, start=1):
                kind = column_of(column.type)
                columns.append(
                    (oid, number, column.name, kind.oid, kind.modifier, not column.nullable,
                     column.comment)
                )  # fmt: skip
        self._load("objects", _OBJECTS, objects)
        self._load("columns", _COLUMNS, columns)
        self._load("schemas", _SCHEMAS_RAW, schemas)
        self._load("settings", _SETTINGS, list(by.settings.items()))
        rows = _resource("rows.sql")
        for name in re.findall(r"INSERT INTO (\S+)", rows):
            self._run(f"DELETE FROM {name}")
        self._run(rows)


_OBJECTS = pa.schema(
    [
        ("oid", pa.uint32()),
        *(
            (name, pa.string())
            for name in ("schema", "name", "kind", "relkind", "comment", "definition")
        ),
    ]
)
_COLUMNS = pa.schema(
    [("oid", pa.uint32()), ("number", pa.int16()), ("name", pa.string()), ("type", pa.uint32()),
     ("modifier", pa.int32()), ("not_null", pa.bool_()), ("comment", pa.string())]
)  # fmt: skip
_TYPES_RAW = pa.schema(
    [("oid", pa.uint32()), ("name", pa.string()), ("size", pa.int16()), ("by_value", pa.bool_()),
     ("kind", pa.string()), ("category", pa.string()), ("array", pa.uint32()),
     ("item", pa.uint32()), ("sql_name", pa.string())]
)  # fmt: skip
_SETTINGS = pa.schema([("name", pa.string()), ("value", pa.string())])
_SCHEMAS_RAW = pa.schema([("oid", pa.uint32()), ("name", pa.string())])


def numbered(keys: Iterable[str]) -> dict[str, int]:
    """An OID for each key; the same in every process unless two of them collide."""
    numbers: dict[str, int] = {}
    taken: set[int] = set()
    for key in sorted(keys):
        number = zlib.crc32(key.encode()) % 0x7FFF0000 + 0x8000
        while number in taken:
            number += 1
        taken.add(number)
        numbers[key] = number
    return numbers


def _resource(name: str) -> str:
    return files("ctsql_postgres").joinpath(name).read_text("utf-8")


def _relations() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """The relations of the catalog: schema, name, and columns with DuckDB's types."""
    for line in _resource("relations.txt").splitlines():
        if line.startswith("#"):
            continue
        path, _, text = line.partition(": ")
        schema, _, name = path.partition(".")
        columns = []
        for one in text.split(", "):
            column, _, kind = one.partition(" ")
            is_list = kind.endswith("[]")
            columns.append((column, _TYPES[kind.removesuffix("[]") or "s"] + "[]" * is_list))
        yield _SCHEMAS[schema], name, columns


def _types() -> Iterator[tuple[Any, ...]]:
    """The types, with their names in SQL."""
    lines = [line.split() for line in _resource("types.txt").splitlines()[1:]]
    names = {oid: name for oid, name, *_ in lines}
    for oid, name, size, by_value, kind, category, array, item in lines:
        one = names.get(item, name) if category == "A" else name
        sql_name = _SQL_NAMES.get(one, one) + "[]" * (category == "A")
        yield (int(oid), name, int(size), by_value == "t", kind, category, int(array), int(item),
               sql_name)  # fmt: skip


_NAMES = {(schema, name) for schema, name, _ in _relations()}


def _column(kind: str) -> PgColumn:
    """The column for a DuckDB type."""
    if kind.endswith("[]"):
        item = _column(kind[:-2])
        return PgColumn(TEXT if item.is_array else item.type, is_array=True)
    if kind.startswith("DECIMAL"):
        return column_of(kind.lower())
    return PgColumn(BY_NAME[_RESULT_TYPES.get(kind, "text")])


def _with_quoted_names(statement: Translated) -> str:
    """The text, with quotes around names that sqlglot takes for keywords: ``AS select``."""
    tokens, parts, position = statement.tokens, list[str](), statement.tokens[0].start
    for before, token in pairwise(tokens):
        if (before.word == "as" or before.text == ".") and token.word in _VERBS:
            parts.append(f'{statement.source[position : token.start]}"{token.word}"')
            position = token.stop
    return "".join(parts) + statement.source[position : tokens[-1].stop]


@lru_cache(maxsize=512)
def _read(text: str) -> exp.Expr | None:
    """The tree of a query of the catalog; None for any other text."""
    try:
        tree = sqlglot.parse_one(text, read="postgres")
    except sqlglot.errors.SqlglotError:
        return None
    own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    tables = [t for t in tree.find_all(exp.Table) if isinstance(t.this, exp.Identifier)]
    for table in tables:
        if table.db == "" and table.name.lower() in own:
            continue
        schema = _SCHEMAS.get(table.db.lower(), "") if table.db else PG
        if (schema, table.name.lower()) not in _NAMES:
            return None
        table.set("db", exp.to_identifier(schema))
        table.set("catalog", None)
    _name_columns(tree)
    return tree


def _name_columns(tree: exp.Expr) -> None:
    """Name the columns of a result as PostgreSQL does."""
    select = tree.find(exp.Select)
    for one in list(select.expressions) if select is not None else []:
        inner = one
        while isinstance(inner, exp.Dot):
            inner = inner.expression
        if isinstance(inner, exp.Cast):
            name = inner.this.name if isinstance(inner.this, exp.Column) else _type_name(inner)
        elif isinstance(inner, exp.Func):
            name = (
                inner.name
                if isinstance(inner, exp.Anonymous)
                else _NAMED.get(type(inner), inner.sql_name().lower())
            )
        else:
            continue
        one.replace(exp.alias_(one.copy(), name.lower(), quoted=True))


_NAMED: dict[type[exp.Expr], str] = {
    exp.CurrentCatalog: "current_catalog", exp.CurrentDatabase: "current_database",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user", exp.CurrentSchema: "current_schema",
    exp.CurrentVersion: "version",
}  # fmt: skip


def _type_name(node: exp.Cast) -> str:
    name: str = node.to.sql("postgres").lower().replace('"', "").removeprefix("pg_catalog.")
    return name


def _replaced(tree: exp.Expr, plain: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """The tree with each node replaced, the inner ones first."""
    whole = exp.Paren(this=tree.copy())
    for node in reversed(list(whole.this.walk(bfs=True))):
        new = plain(node)
        if new is not node:
            node.replace(new)
    found: exp.Expr = whole.this
    return found


def _tree(node: exp.Expr) -> exp.Expr:
    """A part of a tree, typed for mypy."""
    return node


def _plain(node: exp.Expr) -> exp.Expr:
    """Translate one node of PostgreSQL's SQL to DuckDB's."""
    match node:
        case exp.Dot(this=exp.Identifier() as schema) if schema.name.lower() in _SCHEMAS:
            return _tree(node.expression)
        case exp.Table(this=exp.Func()):
            return _function_in_from(node)
        case exp.Collate():
            return _tree(node.this)
        case exp.Column() if node.args.get("db") is not None:
            return exp.column(node.this, table=node.args["table"])
        case exp.Anonymous() if node.name.lower() == "json_build_object":
            return exp.Anonymous(this="json_object", expressions=node.expressions)
        case exp.Format():
            form = exp.Literal.string(re.sub("%[IL]", "%s", node.this.name))
            return exp.Anonymous(this="printf", expressions=[form, *node.expressions])
        case exp.Operator():
            return _operator(node)
        case exp.Cast():
            return _cast(node)
    return node


_OF_ROWS = ("unnest", "generate_series", "generate_subscripts", "pg_get_keywords")


def _function_in_from(node: exp.Table) -> exp.Expr:
    """Translate a function in FROM; its alias also names its column."""
    node.set("db", None)
    function, alias = node.this, node.args.get("alias")
    name = (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()
    if name == "pg_get_keywords":
        return node
    if alias is not None and not alias.args.get("columns"):
        alias.set("columns", [alias.this.copy()])
    if name in (*_OF_ROWS, "explode", "exploding_generate_series"):
        return node
    return exp.Subquery(this=exp.select(function.copy()), alias=alias)


def _operator(node: exp.Operator) -> exp.Expr:
    symbol = str(node.args["operator"]).rpartition(".")[2].strip()
    one, other = node.this, node.expression
    match symbol:
        case "~":
            return exp.RegexpLike(this=one, expression=other)
        case "~*":
            return exp.RegexpILike(this=one, expression=other)
        case "!~":
            return exp.Not(this=exp.RegexpLike(this=one, expression=other))
        case "=":
            return exp.EQ(this=one, expression=other)
        case "~~":
            return exp.Like(this=one, expression=other)
    return node


def _cast(node: exp.Cast) -> exp.Expr:
    name, inner = _type_name(node), node.this
    is_list, name = name.endswith("[]"), name.removesuffix("[]")
    if name in ("regclass", "regtype"):
        is_text = isinstance(inner, exp.Func) or (
            isinstance(inner, exp.Literal) and inner.is_string and not inner.name.isdigit()
        )
        is_column = isinstance(inner, exp.Column)
        function = f"to_{name}" if is_text else {"regclass": "class_name"}.get(name, "")
        if is_text or (is_column and function):
            return exp.func(function, inner)
        if is_column:
            return exp.func("format_type", inner, exp.Null())
        return _as(inner, "UINTEGER")
    if name == "regnamespace":
        return exp.func("namespace_name", inner) if isinstance(inner, exp.Column) else inner
    if name in ("oid", "xid", "cid", "regprocedure") and not is_list:
        return _as(inner, "UINTEGER")
    if name == "regproc" and isinstance(inner, exp.Literal):
        return exp.Literal.string(inner.name.removeprefix("pg_catalog."))
    if is_list and isinstance(inner, exp.Literal) and inner.name.startswith("{"):
        return exp.convert(parameter(inner.name.encode(), TEXT.array_oid, binary=False))
    if name in _TEXT_TYPES:
        return _as(inner, "VARCHAR[]" if is_list else "VARCHAR")
    if name in ("int2vector", "oidvector"):
        return _as(inner, "INTEGER[]")
    return node


def _as(inner: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=inner, to=exp.DataType.build(kind, dialect="duckdb"))


def _for_duckdb(question: exp.Expr, values: Sequence[object], by: Asking) -> str:
    """The text that DuckDB runs, with the parameters and the session's values."""

    def filled(node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Parameter() if node.name.isdigit():
                return exp.convert(values[int(node.name) - 1])
            case exp.CurrentSchema():
                return _variable("schema")
            case exp.CurrentUser() | exp.SessionUser():
                return _variable("username")
            case exp.CurrentCatalog() | exp.CurrentDatabase():
                return _variable("database")
            case exp.Anonymous() | exp.Func():
                return _session_function(node, by) or node
            case exp.Column() if not node.table and node.name.lower() in _VARIABLES:
                return _variable(_VARIABLES[node.name.lower()])
        return node

    return _replaced(_replaced(question, filled), _plain).sql("duckdb")


_VARIABLES = {
    "current_schema": "schema", "current_database": "database", "current_catalog": "database",
    "current_user": "username", "session_user": "username", "current_role": "username",
    "user": "username",
}  # fmt: skip


def _variable(name: str) -> exp.Expr:
    return exp.Anonymous(this="getvariable", expressions=[exp.Literal.string(name)])


def _session_function(node: exp.Func, by: Asking) -> exp.Expr | None:
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if name in _VARIABLES and name not in ("user",):
        return _variable(_VARIABLES[name])
    if name in ("version", "current_version"):
        return exp.Literal.string("PostgreSQL 15.0 (ctsql)")
    if name == "current_setting":
        setting, *missing_ok = [one.name for one in node.expressions]
        value = by.settings.get(setting.lower())
        if value is None and not missing_ok:
            raise error("UNKNOWN_SETTING", name=setting, hint="SHOW lists the settings.")
        return exp.Null() if value is None else exp.Literal.string(value)
    return None
