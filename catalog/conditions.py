"""The texts of all conditions, in the order of names, by kind of cause.

A condition's first line has its name, its SQLSTATE and its class, and which of the texts
``{detail}``, ``{why}`` and ``{hint}`` the caller of :func:`ctsql.catalog.errors.error` passes. The
message follows, then fixed texts after DETAIL and HINT. A deeper indent continues a line.
"""

STATEMENTS = """
AMBIGUOUS_COLUMN 42702 StatementError
    column "{column}" is ambiguous
    DETAIL It could be any of: {candidates}.
    HINT Write the relation's name or alias in front of it.
AS_OF_OUT_OF_RANGE 22008 StatementError {detail} {hint}
    the time {time} is outside the readable history of "{relation}"
CLOCK_NOT_COMPARED 42P17 StatementError {detail} {hint}
    {function} may only be compared with columns in a materialized view
COLUMN_COUNT_MISMATCH 42601 StatementError {detail} {hint}
    {message}
COLUMN_TYPE_CHANGED 42804 StatementError
    column "{column}" of "{relation}" changed its type, from {before} to {now}
    DETAIL Values of one type cannot be converted to the other.
    HINT Read only the inserted rows, or skip this T.
DEFINED_TWICE 42710 StatementError
    {kind} "{name}" is defined twice
    DETAIL The other definition is at {place}.
    HINT A folder defines each object once: remove one of the definitions.
DUPLICATE_COLUMN 42701 StatementError {hint}
    column "{column}" appears twice
FILE_FORMAT_UNKNOWN 22023 StatementError {detail} {hint}
    {message}
INVALID_COLUMN_TYPE 42704 StatementError {hint}
    "{type}" is not a type that a column can have
INVALID_NAME 42602 StatementError {detail} {hint}
    "{name}" is not a valid name
INVALID_OPTION 22023 StatementError {detail} {hint}
    option "{option}" does not take {value}
INVALID_STATEMENT 42601 StatementError {detail} {hint}
    {message}
INVALID_USAGE HY000 StatementError {detail}
    {message}
NONDETERMINISTIC_FUNCTION 42P17 StatementError {detail} {hint}
    {function} is not allowed in a {kind}
NOT_A_DEFINITION 42601 StatementError {hint}
    {what} is not a definition of an object
    DETAIL A folder of definitions takes {taken}.
NOT_DURABLE 42809 StatementError {detail} {hint}
    {what} cannot be read {where}
NOT_SUPPORTED 0A000 NotSupported {why} {hint}
    {what} is not supported
PARAMETER_MISMATCH 42P02 StatementError
    the statement has {wanted} parameter(s), but {given} value(s) were given
SYNTAX_ERROR 42601 StatementError {detail} {hint}
    {message}
TASK_WRITES_FOREIGN_TABLE 42809 StatementError
    the body of continual task "{task}" writes "{name}"
    DETAIL A body may write only the task's own outputs.
    HINT Write {outputs} here, or create a second task for "{name}".
TIME_OUT_OF_RANGE 22008 StatementError {detail}
    {what} has no time after {time}
TRANSACTION_NOT_OPEN 25P01 StatementError
    no transaction is open
    DETAIL Outside of a transaction every statement commits by itself.
    HINT Type BEGIN first.
TRANSACTION_OPEN 25001 StatementError
    {what} cannot run in a transaction
    DETAIL Queries, INSERT, UPDATE, DELETE and MERGE can.
    HINT Type COMMIT or ROLLBACK first.
TYPE_MISMATCH 42804 StatementError {detail} {hint}
    {message}
UNKNOWN_COLUMN 42703 StatementError {detail} {hint}
    column "{column}" does not exist
UNKNOWN_CONSTRAINT 42704 StatementError {hint}
    "{relation}" has no constraint "{name}"
UNKNOWN_FUNCTION 42883 StatementError {hint}
    function "{function}" does not exist
UNKNOWN_SETTING 42704 StatementError {hint}
    setting "{name}" does not exist
"""
"""The text of a statement is wrong, or names something that does not exist."""

OBJECTS = """
ALTERED_MEANWHILE 40001 CatalogError {detail}
    {kind} "{name}" was altered by another process meanwhile
    HINT Run the statement again.
BACKFILL_COLUMNS_DIFFER 42804 CatalogError
    table "{table}" has other columns than continual task "{name}"
    DETAIL The table has ({there}), the task ({wanted}).
    HINT Create a table with the same columns: CREATE TABLE ... AS SELECT ... FROM {table}
COLUMNS_IN_USE 2BP01 CatalogError {hint}
    {kind} "{name}" cannot get other columns because other objects read it
    DETAIL {dependants}
DEFINITIONS_CHANGED 40001 CatalogError
    another process changed definitions while the folder was applied
    DETAIL Nothing of the folder was applied.
    HINT To see what it would change now, type: ctsql plan FOLDER
DEPENDENT_OBJECTS 2BP01 CatalogError
    {kind} "{name}" cannot be dropped because other objects need it
    DETAIL {dependants}
    HINT Drop those first, or type: DROP {keyword} {name} CASCADE
NOT_A_DELTA_TABLE 42809 CatalogError {detail} {hint}
    there is no Delta table at "{location}"
OBJECT_EXISTS 42P07 CatalogError {hint}
    {kind} "{name}" already exists
OUTPUT_OWNED 42809 CatalogError {hint}
    {kind} "{name}" cannot be written by a statement
    DETAIL Only ctsql writes its contents.
PLAN_REFUSED 55000 CatalogError {detail}
    the folder cannot be applied: {count} of its definitions are refused
    HINT Nothing was changed. ctsql plan FOLDER lists the obstacles.
PLAN_UNUSABLE 55000 CatalogError {detail}
    {message}
    HINT Save a new plan: ctsql plan FOLDER -o FILE
READ_ONLY_MODE 25006 CatalogError
    {what} cannot run on a read-only connection
    HINT Connect without read_only (or --read-only) to write.
RECURSIVE_DEFINITION 42P17 CatalogError {detail} {hint}
    "{name}" would read itself
REPLACEMENT_COLUMNS_DIFFER 42804 CatalogError
    replacement "{name}" has other columns than {kind} "{of}"
    DETAIL It has ({after}) instead of ({before}).
    HINT Give the replacement the same columns, in the same order.
REPLACEMENT_EXISTS 42710 CatalogError
    {kind} "{of}" has a replacement already: "{name}"
    HINT Apply or drop that one first: DROP {keyword} {name}
REPLACEMENT_NOT_READ 42809 CatalogError
    replacement "{name}" cannot be read by another object
    DETAIL It is removed when it is applied or dropped.
    HINT Read {of}: it has these rows once the replacement is applied.
REPLACEMENT_OF_ANOTHER 42809 CatalogError {detail} {hint}
    "{name}" is not a replacement for {kind} "{of}"
STORED_DATA_INVALID XX001 CatalogError {detail} {hint}
    {what} cannot be read
SUBSCRIPTION_OUTDATED 55000 CatalogError {hint}
    view "{name}" was replaced since the subscription to it began
    DETAIL A subscription delivers the changes of one query only.
SYSTEM_SCHEMA 42939 CatalogError {hint}
    {message}
    DETAIL Its tables store no rows: they are computed from the logs when they are read.
TABLE_REPLACED 55000 CatalogError {hint}
    {kind} "{name}" was replaced by another table at the same path
    DETAIL {detail} The path is {location}.
TASK_NOT_FAILED 55000 CatalogError {detail}
    continual task "{name}" has not failed
    HINT SHOW CONTINUAL TASKS lists the state of each task.
TASK_SUSPENDED 55000 CatalogError
    continual task "{name}" is suspended
    DETAIL It has not yet written the rows for waiting changes.
    HINT Type: ALTER CONTINUAL TASK {name} RESUME
UNDROP_BLOCKED 55000 CatalogError {detail} {hint}
    {kind} "{name}" cannot be restored
UNKNOWN_RELATION 42P01 CatalogError {hint}
    {kind} "{name}" does not exist
UNKNOWN_SCHEMA 3F000 CatalogError {hint}
    schema "{name}" does not exist
VIEW_FINISHED 55000 CatalogError
    materialized view "{name}" is finished: its last refresh is over
    DETAIL It keeps its rows; nothing is written to it any more.
    HINT Drop it and create it again with other refresh times.
VIEW_REPLACED 55000 CatalogError {detail} {hint}
    materialized view "{name}" was replaced and has other columns now
WAREHOUSE_FORMAT_DIFFERS 3D000 CatalogError
    the warehouse at "{location}" was created by another version of ctsql
    DETAIL Its format is {found}; this ctsql reads format {known}.
    HINT Run ctsql dump with the version that created it, and apply the folder to a new warehouse.
WAREHOUSE_NOT_FOUND 3D000 CatalogError {detail} {hint}
    there is no ctsql warehouse at "{location}"
WRONG_OBJECT_KIND 42809 CatalogError {hint}
    "{name}" is a {found}, not a {wanted}
"""
"""Existing objects prevent the statement."""

RUNNING = """
BATCH_INVALID 22023 StatementError {detail}
    the text does not describe a staged batch
    HINT Give the complete text that stage() returned; nothing was changed.
BATCH_OF_ANOTHER_OUTPUT 22023 StatementError {detail}
    the staged batch is not for the output "{output}"
    HINT Append it to the output that it was staged for; nothing was changed.
BATCH_USED_UP 22023 StatementError {detail}
    the staged batch was already used or deleted
    HINT Stage a new batch.
BOUNDS_INVALID 22023 StatementError {detail}
    {message}
    HINT The bounds must contain every update; the upper is exclusive and at least the lower.
COMMIT_UNKNOWN 40003 CommitUnknown {detail}
    could not determine whether the commit to "{output}" succeeded
    HINT Run the statement again: rows that were already committed are not written again.
CONSTRAINT_VIOLATED 23514 DataError {detail} {hint}
    {message}
DATA_ERROR 22000 DataError {detail} {hint}
    {message}
EXTRA_MISSING 58000 EnvironmentProblem
    the package "{package}" is not installed
    HINT Type: pip install 'ctsql[{extra}]'
FILE_EXISTS 58P02 EnvironmentProblem {detail} {hint}
    "{path}" already exists
FILE_NOT_FOUND 58P01 EnvironmentProblem {detail}
    there is no file at "{path}"
    HINT Check the path; a relative one begins at the current directory.
HISTORY_LOST 55000 DataError {detail} {hint}
    history of "{relation}" was removed that is still needed
INTERNAL_ERROR XX000 InternalError {detail}
    an invariant of ctsql does not hold: {invariant}
    HINT Nothing was written. Please report this, with the statement that led here.
JAR_DOWNLOAD_FAILED 58000 EnvironmentProblem {detail} {hint}
    Delta Lake's JAR files could not be fetched
JAVA_NOT_FOUND 58000 EnvironmentProblem {detail} {hint}
    Java was not found
JAVA_UNSUPPORTED 58000 EnvironmentProblem {detail} {hint}
    Java {found} cannot run Spark
OUTPUT_CLOSED 55000 StatementError
    the output is closed: nothing can be written at T = {time}
OUT_OF_MEMORY 53200 EnvironmentProblem {detail}
    Spark ran out of memory: one of its tasks sorts, joins or collects too much
    HINT Give Spark more, 2g unless set: export SPARK_DRIVER_MEMORY=8g, and start again; on a
      cluster set spark.executor.memory. Or make Spark's tasks smaller: SET
      spark.sql.shuffle.partitions = 64.
REPLAY_FAILED 22000 DataError {detail}
    the body cannot be run again over T = {time}: {reason}
    HINT Nothing was changed. Begin with a later T, or change the body; ON ERROR = 'skip' leaves
      out such a T.
SPARK_ERROR 58000 EnvironmentProblem {detail} {hint}
    {message}
SPARK_VERSION 58000 EnvironmentProblem {detail}
    Spark {version} lacks a method that ctsql needs, or changed it
    HINT Use Apache {tested}; ctsql doctor lists what this one lacks.
SPARK_WITHOUT_DELTA 58000 EnvironmentProblem {detail} {hint}
    the given SparkSession cannot use Delta Lake
STATEMENT_CANCELLED 57014 EnvironmentProblem
    the statement was cancelled
STEP_LIMIT_REACHED 54000 DataError
    the body still changes its output after {limit} iterations
    DETAIL WITH (ITERATIONS = FIXPOINT) runs it until nothing changes.
    HINT Let each run insert only new rows, as INSERT ... EXCEPT SELECT does; or type
      ITERATIONS = n.
STORAGE_ERROR 58030 EnvironmentProblem {detail} {hint}
    {message}
SUBSCRIPTION_MOVED 40001 CommitLost {detail}
    another process with the reader's name "{name}" acknowledged first
    HINT Give each process its own reader's name.
TASK_FAILED 22000 DataError {detail} {hint}
    continual task "{name}" failed at T = {time}: {reason}
TRANSACTION_CONFLICT 40001 CommitLost {detail}
    table "{name}" was changed by another writer: the transaction is rolled back
    HINT Run the transaction again, from BEGIN on.
TRANSACTION_STUCK 40003 CommitUnknown {hint}
    a transaction can neither be completed nor undone
    DETAIL {detail} Table: {table}.
UPPER_MISMATCH 40001 UpperMismatch
    the upper of job "{job}" on "{table}" is {current}, not {expected}
    HINT Everything below {current} is committed: continue there, with expected_upper={current}.
VIEW_FAILED 22000 DataError {detail} {hint}
    materialized view "{name}" cannot be computed at T = {time}: {reason}
"""
"""Something failed while it ran."""
