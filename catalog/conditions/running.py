"""Conditions: something went wrong while it ran. One row each, in the order of names."""

from ctsql.catalog.error_classes import (
    CommitUnknown,
    Condition,
    DataError,
    EnvironmentProblem,
    InternalError,
)

RUNNING: tuple[Condition, ...] = (
    Condition(
        "COMMIT_UNKNOWN",
        "40003",
        CommitUnknown,
        'whether the commit to "{output}" is in could not be found out',
        "{detail}",
        "Run the statement again: what is in already is not written twice.",
    ),
    Condition("DATA_ERROR", "22000", DataError, "{message}", "{detail}", "{hint}"),
    Condition(
        "HISTORY_LOST",
        "55000",
        DataError,
        'the history of "{relation}" that is still needed was removed',
        "{detail}",
        "{hint}",
    ),
    Condition(
        "INTERNAL_ERROR",
        "XX000",
        InternalError,
        "an invariant of ctsql does not hold: {invariant}",
        "{detail}",
        "Nothing was written. Please report this, with the statement that led here.",
    ),
    Condition(
        "JAR_DOWNLOAD_FAILED",
        "58000",
        EnvironmentProblem,
        "Delta Lake's JAR files could not be fetched",
        "{detail}",
        "{hint}",
    ),
    Condition(
        "JAVA_NOT_FOUND", "58000", EnvironmentProblem, "Java was not found", "{detail}", "{hint}"
    ),
    Condition(
        "JAVA_UNSUPPORTED",
        "58000",
        EnvironmentProblem,
        "Java {found} cannot run Spark",
        "{detail}",
        "{hint}",
    ),
    Condition("SPARK_ERROR", "58000", EnvironmentProblem, "{message}", "{detail}", "{hint}"),
    Condition(
        "SPARK_WITHOUT_DELTA",
        "58000",
        EnvironmentProblem,
        "the given SparkSession cannot use Delta Lake",
        "{detail}",
        "{hint}",
    ),
    Condition("STATEMENT_CANCELLED", "57014", EnvironmentProblem, "the statement was cancelled"),
    Condition("STORAGE_ERROR", "58030", EnvironmentProblem, "{message}", "{detail}", "{hint}"),
    Condition(
        "TASK_FAILED",
        "22000",
        DataError,
        'continual task "{name}" failed at T = {time}: {reason}',
        "{detail}",
        "{hint}",
    ),
    Condition(
        "VIEW_FAILED",
        "22000",
        DataError,
        'materialized view "{name}" cannot be computed at T = {time}: {reason}',
        "{detail}",
        "Mend the rows it reads; the view then heals by itself.",
    ),
)
