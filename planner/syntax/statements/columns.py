"""Reads column lists: with types for tables and tasks, names and comments for views."""

from collections.abc import Sequence

from ctsql.catalog.errors import error, not_supported
from ctsql.catalog.names import did_you_mean, fold, quote
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import ColumnDef, ConstraintDef, Edit, SqlText
from ctsql.planner.syntax.statements.constraints import at_constraint, read_constraint
from ctsql.planner.syntax.statements.refusals import refusal
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.replaceable_calls import POSTGRES_TYPES, spark_types
from ctsql.planner.syntax.tokens.rewrite import splice
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens, span_of, word_set

TYPES = word_set("""
    BOOLEAN BYTE TINYINT SHORT SMALLINT INT INTEGER LONG BIGINT FLOAT REAL DOUBLE DATE TIME
    TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ STRING CHAR CHARACTER VARCHAR BINARY DEC DECIMAL
    NUMERIC VOID INTERVAL VARIANT ARRAY MAP STRUCT GEOMETRY GEOGRAPHY
""")
_TYPE_ENDS = ("NOT", "NULL", "COMMENT", "DEFAULT")
_LATER = ("GENERATED", "PRIMARY", "UNIQUE", "CHECK", "CONSTRAINT", "REFERENCES", "MASK")
_OTHER_SYSTEMS = {"JSONB": "STRING", "JSON": "STRING", "UUID": "STRING", "DATETIME": "TIMESTAMP"}


def read_columns(
    tokens: Tokens,
    place: Span,
    *,
    typed: bool,
    defaults: bool = False,
    constraints: list[ConstraintDef] | None = None,
) -> tuple[ColumnDef, ...]:
    """Read a list at ``place`` into columns and, unless that is None, ``constraints``."""
    columns: list[ColumnDef] = []
    names: set[str] = set()
    for group in tk.cut_at_commas(tokens, are_columns=True):
        if not group:
            before = tokens[0].span if tokens else place
            raise syntax_error(before, "a column is missing in the list")
        cursor = TokenCursor(group, of="column")
        if constraints is not None and at_constraint(cursor):
            constraints.append(read_constraint(cursor))
            cursor.end()
            continue
        column = _column(cursor, typed=typed, defaults=defaults, constraints=constraints)
        if fold(column.name) in names:
            raise error("DUPLICATE_COLUMN", span=column.span, column=column.name)
        names.add(fold(column.name))
        columns.append(column)
    return tuple(columns)


def column_text(column: ColumnDef) -> str:
    """A column of a task's list, without its constraints."""
    text = f"{quote(column.name)} {column.type}"
    if not column.nullable:
        text += " NOT NULL"
    if column.default is not None:
        text += f" DEFAULT {column.default.span.text}"
    return text if column.comment is None else f"{text} COMMENT {quote_text(column.comment)}"


def type_edits(columns: Tokens) -> list[Edit]:
    """Spark's spelling for the Postgres types in a list of columns with types."""
    edits: list[Edit] = []
    for group in tk.cut_at_commas(columns, are_columns=True):
        edits.extend(spark_types(_type_tokens(group, 1)))
    return edits


def _column(
    cursor: TokenCursor, *, typed: bool, defaults: bool, constraints: list[ConstraintDef] | None
) -> ColumnDef:
    name = cursor.name("a column's name")
    type_text = read_type(cursor, name)[0] if typed else None
    nullable, comment, default = True, None, None
    while cursor.current is not None:
        if constraints is not None and _begins_constraint(cursor, typed=typed):
            constraints.append(read_constraint(cursor, name.text))
        elif cursor.accept("NOT", "NULL"):
            nullable = False
        elif cursor.accept("COMMENT"):
            comment = cursor.string("the comment in quotes").text
        elif defaults and cursor.accept("DEFAULT"):
            default = read_default(cursor)
        elif cursor.at("REFERENCES"):
            raise refusal(cursor.here, "REFERENCES")
        elif cursor.upper() in (*_LATER, "DEFAULT"):
            raise not_supported(cursor.here, f"{cursor.upper()} in a column list")
        elif typed and cursor.accept("NULL"):
            continue
        else:
            choices = '"NOT NULL", "COMMENT" or ","' if typed else '"COMMENT" or ","'
            cursor.fail(choices)
    return ColumnDef(
        name=name.text,
        span=name.span,
        type=type_text,
        nullable=nullable,
        comment=comment,
        default=default,
    )


def _begins_constraint(cursor: TokenCursor, *, typed: bool) -> bool:
    """Whether a column's constraint comes next; NOT NULL of a typed column is a property."""
    if cursor.at("NOT", "NULL"):
        return cursor.upper(2) == "ON" or not typed
    return cursor.upper() in ("CONSTRAINT", "CHECK", "UNIQUE", "REFERENCES", "PRIMARY")


def read_default(cursor: TokenCursor) -> SqlText:
    """The value after DEFAULT; it ends where NOT NULL, COMMENT or a constraint begins."""
    rest = cursor.rest
    ends = (i for i, _ in tk.at_depth_0(rest) if tk.words_are(rest, i, "NOT", "NULL"))
    words = ("COMMENT", "CONSTRAINT", "CHECK", "UNIQUE", "REFERENCES")
    comments = (i for i, t in tk.at_depth_0(rest) if i and t.upper in words)
    stop = min((*(i for i in ends if rest[i - 1].upper != "IS"), *comments), default=len(rest))
    value = cursor.until(stop, "a value")
    text = analyse(value, form="predicate")
    if text.relations:
        what = "a query as DEFAULT"
        raise not_supported(text.span, what, why="A default is a single value.")
    return text


def _type_tokens(group: Sequence[Token], start: int) -> Tokens:
    stop = start
    depth = 0
    while stop < len(group):
        symbol = group[stop].upper
        if depth <= 0 and symbol in (*_TYPE_ENDS, *_LATER):
            break
        if symbol in ("(", "<"):
            depth += 1
        elif symbol in (")", ">", ">>", ">>>"):
            depth -= len(symbol)
        stop += 1
    return group[start:stop]


def read_type(cursor: TokenCursor, name: Token) -> tuple[str, Span]:
    """Read the type of a column, in Spark's spelling, with its place."""
    tokens = _type_tokens(cursor.tokens, cursor.position)
    if not tokens:
        cursor.fail(f'the type of column "{name.text}"')
    head = tokens[0]
    if head.kind is not Kind.WORD or head.upper not in TYPES | POSTGRES_TYPES.keys():
        type_names = sorted(TYPES | POSTGRES_TYPES.keys())
        other = _OTHER_SYSTEMS.get(head.upper)
        hint = f"Type {other}." if other else did_you_mean(head.upper, type_names)
        raise error("INVALID_COLUMN_TYPE", span=head.span, type=head.text, hint=hint)
    cursor.position += len(tokens)
    span = span_of(tokens)
    text = splice(span, spark_types(tokens)).text
    if head.upper not in ("INTERVAL", "ARRAY", "MAP", "STRUCT", "DOUBLE", "STRING", "TIMESTAMP"):
        extra = tokens[1:2]
        if extra and extra[0].upper != "(":
            cursor.position += 1 - len(tokens)
            cursor.fail('"NOT NULL", "COMMENT" or ","')
    return text, span
