"""The system schema: read-only tables computed from the commits of the warehouse.

:mod:`ctsql.runtime.monitoring.system_tables` has their rows. An object of the warehouse with the
same name comes first.
"""

from dataclasses import dataclass

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import Name, fold
from ctsql.catalog.schemas import Column
from ctsql.catalog.spans import Span

SYSTEM_SCHEMA = "system"


@dataclass(frozen=True, slots=True)
class SystemTable:
    """A system table."""

    name: str  # without the schema
    about: str  # the meaning of a row
    columns: tuple[Column, ...]


def _columns(text: str) -> tuple[Column, ...]:
    """Columns from lines of name, type, ``!`` for NOT NULL, and a comment."""
    columns = []
    for line in text.strip().splitlines():
        name, kind, comment = line.split(maxsplit=2)
        columns.append(Column(name, kind.removesuffix("!"), not kind.endswith("!"), comment))
    return tuple(columns)


_OBJECTS = _columns("""
    object       string!  its name as SQL spells it; the key by which system tables are joined
    schema       string!  the schema
    name         string!  the name without the schema
    kind         string!  table, view, materialized view, continual task or task output
    state        string   of a task or materialized view: as in system.lag
    created_t    bigint   of a task or materialized view: the T from which it follows its inputs
    columns      array<string>!  the names of its columns
    comment      string   what COMMENT ON says
    definition   string!  the statement that created it, as typed
    location     string   the Delta table with its rows
    object_id    string!  never changes and is never used again
""")
_REFRESHES = _columns("""
    object         string!  the task or materialized view
    output         string!  the table that was written: the object's own, or one of OUTPUTS
    kind           string!  of the object
    t              bigint   the T to which the commit advanced the output; NULL if it closed it
    at             timestamp!  the instant of the commit, after that of T
    version        bigint!  of the output's Delta table
    strategy       string!  how the rows were computed
    reason         string   why a view was recomputed, as a code
    detail         string   more about the reason, such as the table
    changed        array<string>!  the tables whose changes a view followed
    changed_rows   bigint   the changed rows of a view's tables, by their logs; NULL if not counted
    expected_seconds  double  what recomputing the view was expected to take; NULL if unknown
    rows_inserted  bigint   NULL without statistics
    rows_deleted   bigint   NULL without statistics
    files_written  bigint!  new files with rows
    bytes_written  bigint!  their size
    rows_read      bigint   by Spark's jobs; NULL when it was not measured
    bytes_read     bigint   by Spark's jobs; NULL when it was not measured
    jobs           bigint   Spark jobs; NULL when it was not measured
    seconds        double   up to the commit, without it; NULL when it was not measured
    phases         map<string,double>!  seconds by phase
    delay_seconds  double   from T to the commit
    times          bigint!  the number of Ts that share the commit
    process        string   host and process id of the writer
""")
_FAILURES = _columns("""
    object      string!  the task or materialized view
    kind        string!  of the object
    t           bigint!  the T that could not be computed
    at          timestamp!  the instant at which that was recorded
    state       string!  open, resolved (the T was computed later) or skipped
    condition   string!  of the error, as error_condition of system.lag
    message     string!  of the error
    detail      string   more about it
    line        bigint   in the definition, from 1
    column      bigint   in the definition, from 1
    ended_at    timestamp  the instant at which it was resolved or skipped
    what_to_do  string   what to type, for an open failure
""")
_LAG = _columns("""
    object            string!  the task or materialized view
    kind              string!  of the object
    state             string!  up to date, behind, failed, suspended, finished or unreadable
    upper             bigint   everything at times below it is stored
    complete_through  bigint   its rows are stored for every T up to this one
    lag_seconds       double!  the time since the first commit that it waits for was due
    lag_versions      bigint!  the number of commits that it waits for
    error_condition   string   the condition of the error that stops it, as in system.failures
    error_t           bigint   the T of that error
    error_message     string   the message of that error
""")
_DEPENDENCIES = _columns("""
    object       string!  the object that reads
    kind         string!  of the object
    reads        string!  the object that is read; for a task's output, the task that writes it
    reads_kind   string!  the kind of the object that is read
    role         string!  input, reference or output
    columns      array<string>!  the columns that the definition reads; all of them for a star
    column_lineage  map<string,array<string>>!  the columns that each of its columns comes from
""")
_QUARANTINE = _columns("""
    object           string!  the task or materialized view that the quarantine belongs to
    kind             string!  of the object
    t                bigint   the T; NULL for a view, whose quarantine follows the data
    relation         string   the output, the input or the view that the row belongs to
    constraint_name  string   the constraints that it breaks; NULL for a row of a failed T
    reason           string   the rules that it breaks, or the message of the error
    place            string   the part of the definition that failed
    row_json         string   the row
""")
_STORAGE = _columns("""
    object        string!  the table, task or materialized view
    kind          string!  of the object
    part          string!  rows or state table
    version       bigint!  the newest version of the Delta table
    files         bigint!  the number of files with present rows
    bytes         bigint!  the size of these files
    rows          bigint   the number of present rows; NULL without statistics
    deleted_rows  bigint!  the number of deleted rows that are still in the files
    location      string!  of the Delta table
""")
SYSTEM_TABLES = {
    table.name: table
    for table in (
        SystemTable("dependencies", "What each object reads, with the columns.", _DEPENDENCIES),
        SystemTable("failures", "Each T that could not be computed.", _FAILURES),
        SystemTable("lag", "The state and lag of each task and materialized view.", _LAG),
        SystemTable("objects", "Every object.", _OBJECTS),
        SystemTable("quarantine", "Each row in quarantine.", _QUARANTINE),
        SystemTable("refreshes", "Each commit of a task or materialized view.", _REFRESHES),
        SystemTable("storage", "The files that hold each object's rows now.", _STORAGE),
    )
}


def is_system(schema: str) -> bool:
    """Whether a schema is the system schema."""
    return fold(schema) == SYSTEM_SCHEMA


def find_system_table(name: Name) -> SystemTable | None:
    """The system table of a name; None if there is none."""
    return SYSTEM_TABLES.get(fold(name.name)) if is_system(name.schema) else None


def made_in_system(span: Span | None) -> CtsqlError:
    """The error for creating an object in the system schema; the caller raises it."""
    message = 'nothing can be created in the schema "system"'
    return error("SYSTEM_SCHEMA", span=span, message=message, hint="Choose another schema.")
