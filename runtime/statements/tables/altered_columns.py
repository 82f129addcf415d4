"""The columns after an ALTER TABLE, and Delta's statements for it. Pure.

Delta needs column mapping to drop and rename columns without rewriting files, type widening, or
defaults. Each is a property that stays on and excludes older readers or writers, so the
statement reports it.

Source: the Delta protocol, "Column Mapping", "Type Widening", "Default Columns".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog import schemas
from ctsql.catalog.errors import CtsqlError, error, not_supported
from ctsql.catalog.names import backtick, fold, quote
from ctsql.catalog.schemas import Column, Schema
from ctsql.planner.binding.checks import check_type, check_updatable
from ctsql.planner.lowering.store_assignment import spelled
from ctsql.planner.syntax import ast as st
from ctsql.planner.syntax.tokens.rewrite import splice
from ctsql.runtime.log.table_metadata import MODE, fits, is_on

WIDENING = "delta.enableTypeWidening"
FEATURE = "delta.feature."  # prefix of the property that enables a table feature
DEFAULTS = "allowColumnDefaults"
WITHOUT_ZONE = "timestampNtz"
_IN_LOGS = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
"""Names of types in a log that differ from SQL's."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A property that a change needs, and its consequence for others."""

    name: str
    value: str
    notice: str


_MAPPING = Feature(
    MODE,
    "name",
    "column mapping is turned on for it and stays on: files keep the old names of their columns. "
    "Its readers must support Delta reader version 2, and small reads and writes of it need a "
    "Spark job.",
)
_WIDENING = Feature(
    WIDENING,
    "true",
    "type widening is turned on for it: its readers must support Delta's table feature "
    "typeWidening.",
)
_DEFAULTS = Feature(
    FEATURE + DEFAULTS,
    "supported",
    "defaults are turned on for it: its writers must support Delta's table feature "
    "allowColumnDefaults.",
)
_WITHOUT_ZONE = Feature(
    FEATURE + WITHOUT_ZONE,
    "supported",
    "timestamps without time zone are turned on for it: its readers must support Delta's table "
    "feature timestampNtz.",
)


def altered_columns(columns: Schema, change: st.ColumnChange) -> Schema:
    """The columns after a change; the same object if they are unchanged.

    Raises:
        UNKNOWN_COLUMN, DUPLICATE_COLUMN: of its names. NOT_SUPPORTED: the last column, or a type
            that is not wider.
    """
    match change:
        case st.AddColumns():
            return _add(columns, change)
        case st.DropColumns():
            return _drop(columns, change)
        case st.RenameColumn(column=old, new=new):
            column = _find(columns, old)
            other = schemas.find(columns, new.name)
            if other is not None:
                if other.name == new.name == column.name:
                    return columns
                if other == column:
                    raise _only_case(column, change)
                raise error("DUPLICATE_COLUMN", span=new.span, column=new.name)
            check_updatable([replace(column, name=new.name)], new.span)
            return _with(columns, column, replace(column, name=new.name))
        case st.RetypeColumn(column=target):
            column = _find(columns, target)
            if not _widens(column.type, change.type):
                raise _not_wider(column, change)
            return _with(columns, column, replace(column, type=_spell(change.type)))
        case st.SetNotNull(column=target, not_null=not_null):
            column = _find(columns, target)
            return _with(columns, column, replace(column, nullable=not not_null))
        case st.SetDefault(column=target):
            _find(columns, target)
            return columns


def features(change: st.ColumnChange, has: Mapping[str, str]) -> list[Feature]:
    """The properties to set first, by the properties and features of the table."""
    new_features = []
    match change:
        case st.DropColumns() | st.RenameColumn():
            new_features = [] if has.get(MODE, "none") != "none" else [_MAPPING]
        case st.RetypeColumn(type=type_):
            new_features = [] if is_on(has, WIDENING) else [_WIDENING]
            new_features += _for_types([type_])
        case st.AddColumns():
            new_features = _for_types(c.type or "" for c in change.columns)
        case st.SetDefault(value=value) if value is not None:
            new_features = [_DEFAULTS]
        case _:
            pass
    return [f for f in new_features if f.name not in has or not f.name.startswith(FEATURE)]


def _for_types(types: Iterable[str]) -> list[Feature]:
    return [_WITHOUT_ZONE] if any("timestamp_ntz" in t.lower() for t in types) else []


def delta_text(table: str, change: st.ColumnChange, columns: Schema) -> str:
    """Delta's statement for Spark's name of a table and its columns; SET NOT NULL has none."""
    start = f"ALTER TABLE {table}"
    match change:
        case st.AddColumns():
            new = [c for c in _add(columns, change) if schemas.find(columns, c.name) is None]
            return f"{start} ADD COLUMNS ({', '.join(c.ddl() for c in new)})"
        case st.DropColumns():
            names = [c.name for c in columns if c not in _drop(columns, change)]
            return f"{start} DROP COLUMNS ({', '.join(map(backtick, names))})"
        case st.RenameColumn(column=old, new=new_name):
            return f"{start} RENAME COLUMN {_name(columns, old)} TO {backtick(new_name.name)}"
        case st.RetypeColumn(column=column, type=wider):
            return f"{start} ALTER COLUMN {_name(columns, column)} TYPE {wider}"
        case st.SetNotNull(column=column):
            assert not change.not_null  # Delta has no statement for it
            return f"{start} ALTER COLUMN {_name(columns, column)} DROP NOT NULL"
        case st.SetDefault(column=column, value=value):
            what = "DROP DEFAULT"
            if value is not None:
                what = f"SET DEFAULT {splice(value.span, value.edits).text}"
            return f"{start} ALTER COLUMN {_name(columns, column)} {what}"


def not_null_schema(schema: str, name: str) -> str:
    """The schema of a log in which a column is NOT NULL."""
    struct = json.loads(schema)
    for field in struct["fields"]:
        if fold(field["name"]) == fold(name):
            field["nullable"] = False
    return json.dumps(struct)


def _add(columns: Schema, change: st.AddColumns) -> Schema:
    after = list(columns)
    for new in change.columns:
        if schemas.find(columns, new.name) is not None:
            if change.if_not_exists:
                continue
            raise error("DUPLICATE_COLUMN", span=new.span, column=new.name)
        assert new.type is not None  # the grammar asks for one
        column = Column(new.name, _spell(new.type), True, new.comment)
        check_updatable([column], new.span)
        check_type(column, new.span)
        after.append(column)
    return tuple(after)


def _drop(columns: Schema, change: st.DropColumns) -> Schema:
    names = set()
    for column in change.columns:
        if schemas.find(columns, column.name) is not None or not change.if_exists:
            names.add(_find(columns, column).name)
    after = tuple(c for c in columns if c.name not in names)
    if not after:
        what = "dropping all columns of a table"
        why = "A table has at least one column."
        hint = "Drop the table, or add another column first."
        raise not_supported(change.columns[0].span, what, why=why, hint=hint)
    return after


def _find(columns: Sequence[Column], column: st.ColumnDef) -> Column:
    return schemas.get(columns, column.name, span=column.span)


def _name(columns: Sequence[Column], column: st.ColumnDef) -> str:
    return backtick(_find(columns, column).name)


def _with(columns: Schema, old: Column, new: Column) -> Schema:
    return tuple(new if c is old else c for c in columns)


def _spell(type_: str) -> str:
    """In Spark's spelling; nested types, CHAR and VARCHAR as typed."""
    is_plain = "<" not in type_ and schemas.plain_type(type_) == type_
    return spelled(type_) if is_plain else type_


def _widens(old: str, new: str) -> bool:
    if any("<" in t or schemas.plain_type(t) != t for t in (old, new)):
        return False
    before, after = (_IN_LOGS.get(t, t) for t in (spelled(old), spelled(new)))
    return fits(before, after)


def _only_case(column: Column, change: st.RenameColumn) -> CtsqlError:
    what = "renaming a column to its own name in another case"
    why = "To Delta both are the same name."
    hint = (
        f"Rename {quote(column.name)} to another name first, and that to {quote(change.new.name)}."
    )
    return not_supported(change.new.span, what, why=why, hint=hint)


def _not_wider(column: Column, change: st.RetypeColumn) -> CtsqlError:
    what = f"{column.type.upper()} AS {change.type.upper()} for an existing column"
    why = (
        f'"{column.name}" can only get a wider type, which keeps all of its values: a longer '
        "integer, a decimal with more digits, DOUBLE for FLOAT."
    )
    hint = "Add another column, UPDATE it by CAST, and drop this one."
    return not_supported(change.type_span, what, why=why, hint=hint)
