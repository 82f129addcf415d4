"""Conditions: the text of a statement is wrong, or asks for what there is not.

One row each, in the order of names.
"""

from ctsql.catalog.error_classes import Condition, NotSupported, StatementError

STATEMENTS: tuple[Condition, ...] = (
    Condition(
        "AMBIGUOUS_COLUMN",
        "42702",
        StatementError,
        'column "{column}" is ambiguous',
        "It could be any of: {candidates}.",
        "Write the relation's name or alias in front of it.",
    ),
    Condition(
        "AS_OF_OUT_OF_RANGE",
        "22008",
        StatementError,
        'the time {time} is outside what "{relation}" can be read at',
        "{detail}",
        "{hint}",
    ),
    Condition("COLUMN_COUNT_MISMATCH", "42601", StatementError, "{message}", "{detail}", "{hint}"),
    Condition(
        "COLUMN_TYPE_CHANGED",
        "42804",
        StatementError,
        'column "{column}" of "{relation}" changed its type, from {before} to {now}',
        "Values of the one type cannot be shown as the other.",
        "Read the rows that are inserted only, or go past this T.",
    ),
    Condition("CURSOR_STATE", "24000", StatementError, "{message}"),
    Condition("DUPLICATE_COLUMN", "42701", StatementError, 'column "{column}" appears twice'),
    Condition(
        "INVALID_COLUMN_TYPE", "42704", StatementError, '"{type}" is not a type', None, "{hint}"
    ),
    Condition("INVALID_NAME", "42602", StatementError, '"{name}" is not a valid name', "{detail}"),
    Condition(
        "INVALID_OPTION",
        "22023",
        StatementError,
        'option "{option}" does not take {value}',
        "{detail}",
        "{hint}",
    ),
    Condition("INVALID_STATEMENT", "42601", StatementError, "{message}", "{detail}", "{hint}"),
    Condition("INVALID_USAGE", "HY000", StatementError, "{message}", "{detail}"),
    Condition(
        "NONDETERMINISTIC_FUNCTION",
        "42P17",
        StatementError,
        "{function} may not stand in a {kind}",
        "{detail}",
        "{hint}",
    ),
    Condition("NOT_SUPPORTED", "0A000", NotSupported, "{what} is not supported", "{why}", "{hint}"),
    Condition(
        "NOT_SUPPORTED_YET", "0A000", NotSupported, "{what} is not supported yet", None, "{hint}"
    ),
    Condition(
        "PARAMETER_MISMATCH",
        "42P02",
        StatementError,
        "the statement has {wanted} parameter(s), {given} value(s) were given",
    ),
    Condition("SYNTAX_ERROR", "42601", StatementError, "{message}", "{detail}", "{hint}"),
    Condition(
        "TASK_INPUT_IS_OUTPUT",
        "42P17",
        StatementError,
        'continual task "{name}" cannot be its own input',
        "A task runs for each change of its input; its own writes would make it run for ever.",
        "Read it in the body instead: there it holds what it held before the change.",
    ),
    Condition(
        "TASK_INPUT_NOT_DURABLE",
        "42809",
        StatementError,
        'view "{name}" cannot be the input of a continual task',
        "A view has no stored history, so its changes cannot be followed exactly once.",
        "Type: CREATE MATERIALIZED VIEW ... AS with the view's query, and use that as input.",
    ),
    Condition(
        "TASK_WRITES_FOREIGN_TABLE",
        "42809",
        StatementError,
        'the body of continual task "{task}" writes "{name}"',
        "A body may write what the task owns and nothing else.",
        'Write {outputs} here, or make a second task for "{name}".',
    ),
    Condition(
        "TIME_OUT_OF_RANGE",
        "22008",
        StatementError,
        "{what} has no time after {time}",
        "{detail}",
    ),
    Condition(
        "TRANSACTION_NOT_OPEN",
        "25P01",
        StatementError,
        "no transaction is open",
        "Outside of one every statement commits by itself.",
        "Type BEGIN first.",
    ),
    Condition(
        "TRANSACTION_OPEN",
        "25001",
        StatementError,
        "{what} cannot run in a transaction",
        "Queries, INSERT, UPDATE, DELETE and MERGE can.",
        "Type COMMIT or ROLLBACK first.",
    ),
    Condition("TYPE_MISMATCH", "42804", StatementError, "{message}", "{detail}", "{hint}"),
    Condition(
        "UNKNOWN_COLUMN",
        "42703",
        StatementError,
        'column "{column}" does not exist',
        "{detail}",
        "{hint}",
    ),
    Condition(
        "UNKNOWN_FUNCTION",
        "42883",
        StatementError,
        'function "{function}" does not exist',
        None,
        "{hint}",
    ),
    Condition(
        "UNKNOWN_SETTING",
        "42704",
        StatementError,
        'setting "{name}" does not exist',
        None,
        "{hint}",
    ),
)
