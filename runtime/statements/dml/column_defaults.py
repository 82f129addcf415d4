"""The defaults of a table's columns: those that no statement of its definition says, or others.

Pure.
"""

from collections.abc import Iterable, Mapping

from ctsql.catalog.names import fold, quote
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.syntax.tokens.tokenizer import words_of
from ctsql.runtime.log.table_metadata import CURRENT_DEFAULT, TableMetadata


def stored_default(metadata: TableMetadata, column: str) -> str | None:
    """The DEFAULT of a column as the log has it; None for none."""
    default = (metadata.columns[fold(column)].field.get("metadata") or {}).get(CURRENT_DEFAULT)
    return None if default is None else str(default)


def unsaid_defaults(statements: Iterable[st.Statement], metadata: TableMetadata) -> list[str]:
    """What ALTER TABLE is to say after some statements, so that the columns have their defaults.

    Args:
        statements: the table's CREATE TABLE, and all that ALTER TABLE has changed of its columns
            since.
    """
    defaults = _defaults_of(statements)
    texts = []
    for key, column in metadata.columns.items():
        value, before = stored_default(metadata, column.name), defaults.get(key)
        if value is None and before is not None:
            texts.append(f"ALTER COLUMN {quote(column.name)} DROP DEFAULT")
        elif value is not None and (before is None or _words(before) != _words(value)):
            texts.append(f"ALTER COLUMN {quote(column.name)} SET DEFAULT {value}")
    return texts


def default_changes(columns: Iterable[st.ColumnDef], metadata: TableMetadata) -> list[str]:
    """What ALTER TABLE is to say so that a table's columns have the defaults of a column list."""
    texts = []
    for column in columns:
        is_there = fold(column.name) in metadata.columns
        before = stored_default(metadata, column.name) if is_there else None
        if column.default is None:
            if before is not None:
                texts.append(f"ALTER COLUMN {quote(column.name)} DROP DEFAULT")
            continue
        value = _text(column.default)
        if before is None or _words(before) != _words(value):
            texts.append(f"ALTER COLUMN {quote(column.name)} SET DEFAULT {value}")
    return texts


def _defaults_of(statements: Iterable[st.Statement]) -> Mapping[str, str]:
    """The defaults that statements have given, by the folded names of their columns now."""
    defaults: dict[str, str] = {}
    for statement in statements:
        match statement:
            case st.CreateTable():
                defaults |= {fold(c.name): _text(c.default) for c in statement.columns if c.default}
            case st.AlterTable(change=st.SetDefault(column=column, value=value)):
                defaults.pop(fold(column.name), None)
                if value is not None:
                    defaults[fold(column.name)] = _text(value)
            case st.AlterTable(change=st.RenameColumn(column=column, new=new)):
                if fold(column.name) in defaults:
                    defaults[fold(new.name)] = defaults.pop(fold(column.name))
            case st.AlterTable(change=st.DropColumns(columns=columns)):
                for one in columns:
                    defaults.pop(fold(one.name), None)
    return defaults


def _text(value: st.SqlText) -> str:
    return splice(value.span, value.edits).text


def _words(text: str) -> list[str]:
    return words_of(Source(text, "default").whole())
