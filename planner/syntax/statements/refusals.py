"""Statements that ctsql refuses by name: why, and what to type instead. See docs/limits.md."""

from ctsql.catalog.errors import CtsqlError, not_supported
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.tokens.tokenizer import Tokens, name_chain, span_of, upper_at

_NO_USERS = "ctsql has no users."
ASSERT = "ASSERT NOT NULL"
_LAYOUT = "ctsql manages the files of its tables."
REFUSED: dict[str, tuple[str, str]] = {
    "TRUNCATE": ("", "Type: DELETE FROM {name}"),
    "OPTIMIZE": ("", "Type: MAINTAIN {name}"),
    "VACUUM": ("", "Type: MAINTAIN {name}"),
    "REORG": ("", "Run it with Spark."),
    "REPLACE": ("", "Type DROP TABLE first, then CREATE TABLE."),
    "RESTORE": (
        "",
        "SELECT * FROM t AS OF <time> shows the old rows. Correct the present ones by DELETE, "
        "UPDATE and INSERT.",
    ),
    "LOAD": ("", "Type: COPY <table> FROM 'file'"),
    "GRANT": (_NO_USERS, ""),
    "REVOKE": (_NO_USERS, ""),
    **dict.fromkeys(("CACHE", "UNCACHE", "CLEAR", "MSCK", "REPAIR", "ADD", "LIST"), ("", "")),
    "APPLY": ("", "Type: CREATE FLOW f AS AUTO CDC INTO target FROM source KEYS (k) SEQUENCE BY n"),
    "PLAN": ("", "Type: ctsql plan FOLDER. ALTER TABLE itself is refused if a reader would fail."),
    "REHEARSE": ("", "Type: ctsql plan FOLDER, or CREATE REPLACEMENT ..., whose rows can be read."),
    "RETRY": (
        "",
        "Insert corrected rows into a second input: "
        "CREATE CONTINUAL TASK x ON INPUT t, corrected ...",
    ),
    **dict.fromkeys(
        ("CREATE TEMPORARY", "CREATE TEMP", "CREATE GLOBAL", "CREATE LOCAL"),
        (
            "All objects belong to the warehouse.",
            "Leave the word out; from Python: con.register('name', rows), for one connection.",
        ),
    ),
    "CREATE DATABASE": ("", "Type: CREATE SCHEMA"),
    "DROP DATABASE": ("", "Type: DROP SCHEMA"),
    "CREATE EXTERNAL": ("", "Type: CREATE TABLE t LOCATION 'uri' to attach a table."),
    "CREATE FUNCTION": (
        "",
        "From Python: con.spark.udf.register('name', f); SQL then calls it by that name.",
    ),
    **{f"CREATE {word}": ("", "") for word in ("INDEX", "SINK", "SOURCE", "CONNECTION", "ROLE")},
    **{f"SHOW {word}": ("", "") for word in ("PARTITIONS", "TBLPROPERTIES", "CATALOGS", "LOCKS")},
    "UNDROP SUBSCRIPTION": (
        "",
        "A named reader comes back with the object that it followed, where a DROP took both.",
    ),
    "SHOW SAVINGS": ("", "Query system.refreshes: it has the strategy and the seconds of each."),
    "WHY NOT": ("", "Query what it reads, AS OF the same T: SHOW CREATE prints its query."),
    "EXPLAIN ROW": ("", "Type: WHY name WHERE k = 1"),
    "DESCRIBE HISTORY": (
        "",
        "Type: SUBSCRIBE TO {name} FROM 0 UP TO NOW, which lists the changes with their T; for the "
        "commits con.commits('{name}') in Python, or of a task or view SELECT * FROM "
        "system.refreshes",
    ),
    "DESCRIBE DETAIL": ("", "Type: DESCRIBE EXTENDED {name}; its files: system.storage"),
    "DYNAMIC TABLE": (
        "",
        "Type: CREATE MATERIALIZED VIEW ... WITH (REFRESH EVERY '5 minutes'); for REFRESH USING: "
        "CREATE CONTINUAL TASK ... ON INPUT t AS (...)",
    ),
    "STREAMING TABLE": (
        "",
        "Type: CREATE CONTINUAL TASK x ON INPUT t AS (INSERT INTO x SELECT ... FROM t); AUTO CDC "
        "creates its target itself.",
    ),
    "FLOW ... AS INSERT": (
        "",
        "Type: CREATE CONTINUAL TASK x ON INPUT t AS (INSERT INTO x SELECT ... FROM t)",
    ),
    **dict.fromkeys(("FROM TRANSFORM", "FROM RETAIN"), ("", "")),
    "REFRESH outside of WITH (...)": ("", "Put it in WITH (...)."),
    "FROM FILES": ("", "Type: COPY t FROM 'file'; new files of a folder: examples/ingest_files.py"),
    "FROM KAFKA": ("", "Write the table with con.writer, as examples/ingest_kafka.py does."),
    "UNIQUE of a table": (
        "Delta has no such constraint, so other writers would not enforce it.",
        "Type: CREATE CONTINUAL TASK x (k INT UNIQUE) ON INPUT {name} AS (INSERT INTO x SELECT ... "
        "FROM {name}); the newest row of each key: docs/recipes/upsert.md",
    ),
    "REFERENCES": (
        "",
        "Create a view of the rows without a match: CREATE MATERIALIZED VIEW orphans AS SELECT * "
        "FROM t LEFT ANTI JOIN other ON t.k = other.k",
    ),
    "ON VIOLATION of a table": (
        "A statement with such a row is refused as a whole.",
        "Leave the clause out, or type: CREATE CONTINUAL TASK x (k INT CHECK (k > 0) ON VIOLATION "
        "QUARANTINE) ON INPUT {name} AS (INSERT INTO x SELECT ... FROM {name})",
    ),
    "PRIMARY KEY": ("", "Type UNIQUE and NOT NULL, in the list of a task or view."),
    ASSERT: ("", "Type: CREATE MATERIALIZED VIEW x (NOT NULL (a)) AS ..."),
    "SCHEDULE": ("", "Type: WITH (REFRESH EVERY '1 hour')"),
    "PARTITIONED BY": (_LAYOUT, "Leave the clause out."),
    "CLUSTER BY": (_LAYOUT, "Leave the clause out."),
    "TBLPROPERTIES": (_LAYOUT, "Leave the clause out."),
    "IN CLUSTER": ("The Spark session computes it.", "Leave the clause out."),
}
"""By a statement's first words without OR REPLACE, the words of an object's kind, or a clause."""
_VERBS = (
    "CREATE", "ALTER", "DROP", "UNDROP", "SHOW", "DESCRIBE", "DESC", "REFRESH", "EXPLAIN", "WHY",
)  # fmt: skip


def refuse_statement(tokens: Tokens) -> None:
    """Raise NOT_SUPPORTED if a statement begins with words that are refused."""
    first = tokens[0].upper
    if first in REFUSED:
        names = [t.span.text for t in tokens[1:] if t.upper != "TABLE"]
        raise refusal(tokens[0].span, first, name="".join(names) or "<table>")
    verb = "DESCRIBE" if first == "DESC" else first
    rest = tokens[3:] if first == "CREATE" and upper_at(tokens, 1) == "OR" else tokens[1:]
    # After DESCRIBE one word is a name.
    if first not in _VERBS or (verb == "DESCRIBE" and (len(rest) < 2 or rest[1].upper == ".")):
        return
    for count in (2, 1):
        words = " ".join(token.upper for token in rest[:count])
        for what in (f"{verb} {words}", words.removesuffix("S") if count > 1 else ""):
            if what in REFUSED:
                is_named = len(rest) > count and rest[count].is_name
                name = span_of(name_chain(rest, count)).text if is_named else "<name>"
                raise refusal(span_of(rest[:count]), what, name=name)


def refusal(span: Span, what: str, *, name: str = "") -> CtsqlError:
    """NOT_SUPPORTED for an entry of the table; ``name`` is the statement's object, for the hint."""
    why, hint = REFUSED[what]
    return not_supported(span, what, why=why, hint=hint.format(name=name))
