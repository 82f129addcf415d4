"""Reads constraints, with the action for a row that breaks one.

    [CONSTRAINT name] CHECK (condition)    [ON VIOLATION FAIL | DROP | WARN | QUARANTINE]
    [CONSTRAINT name] NOT NULL (columns)   [ON VIOLATION ...]
    [CONSTRAINT name] UNIQUE (columns)     [ON VIOLATION ...]
    column type [CONSTRAINT name] CHECK (condition) | NOT NULL | UNIQUE    [ON VIOLATION ...]

A constraint without a name is named after its column and kind, so it can be dropped and counted.
"""

from collections.abc import Sequence
from dataclasses import replace

from ctsql.catalog.errors import invalid, not_supported
from ctsql.catalog.names import check_new_name, fold, free_name, quote
from ctsql.planner.syntax.ast import ConstraintDef, OnViolation
from ctsql.planner.syntax.statements.refusals import refusal
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, column_names

CONSTRAINTS_MAX = 60  # of one output: the bits of a number say which of them a row breaks
_ACTIONS = tuple(action.value for action in OnViolation)
_KINDS = ("CHECK", "NOT", "UNIQUE", "FOREIGN", "REFERENCES", "PRIMARY")


def at_constraint(cursor: TokenCursor, ahead: int = 0) -> bool:
    """Whether a constraint of a whole row, not a column, comes next in a column list."""
    word = cursor.upper(ahead)
    if word == "CONSTRAINT":
        return cursor.upper(ahead + 2) in _KINDS
    if word == "NOT":
        return cursor.upper(ahead + 1) == "NULL" and cursor.upper(ahead + 2) == "("
    if word in ("FOREIGN", "PRIMARY"):
        return cursor.upper(ahead + 1) == "KEY"
    return word in ("CHECK", "UNIQUE") and cursor.upper(ahead + 1) == "("


def read_constraint(cursor: TokenCursor, column: str | None = None) -> ConstraintDef:
    """Read one constraint with its ON VIOLATION; ``column`` is None for one of a whole row."""
    start, name = cursor.here, ""
    if cursor.accept("CONSTRAINT"):
        token = cursor.name("the name of the constraint")
        check_new_name(token.text, token.span)
        name = token.text
    if cursor.at("PRIMARY"):
        raise refusal(cursor.here, "PRIMARY KEY")
    if cursor.at("FOREIGN") or cursor.at("REFERENCES"):
        raise refusal(cursor.here, "REFERENCES")
    columns: tuple[str, ...] = ()
    predicate, is_unique = None, cursor.accept("UNIQUE")
    if not is_unique and cursor.accept("CHECK"):
        inside = cursor.group("a condition", filled=True)
        predicate = analyse(inside, form="predicate")
        if predicate.relations:
            why = "A constraint reads only the row that is written."
            raise not_supported(predicate.relations[0].span, "a query in a CHECK", why=why)
    else:
        if not is_unique:
            cursor.expect("NOT", "NULL")
        if column is None and not cursor.at("("):
            cursor.fail('"(" and columns')
        columns = (column,) if column is not None else tuple(t.text for t in column_names(cursor))
    action = OnViolation.FAIL
    if cursor.accept("ON"):
        cursor.expect("VIOLATION")
        if cursor.upper() not in _ACTIONS:
            cursor.fail(" or ".join(_ACTIONS), words=_ACTIONS)
        action = OnViolation(cursor.take().upper)
    return ConstraintDef(
        name=name,
        span=cursor.since(start.start),
        columns=columns,
        predicate=predicate,
        action=action,
        column=column,
        unique=is_unique,
    )


def with_names(constraints: Sequence[ConstraintDef]) -> tuple[ConstraintDef, ...]:
    """The constraints, each with a name; INVALID_STATEMENT: a name twice, or too many."""
    if len(constraints) > CONSTRAINTS_MAX:
        message = f"an output has {CONSTRAINTS_MAX} constraints at most"
        raise invalid(
            constraints[CONSTRAINTS_MAX].span, message, hint="Combine some CHECKs with AND."
        )
    names_in_use: set[str] = set()
    for one in constraints:
        if one.name and fold(one.name) in names_in_use:
            message = f'two constraints are called "{one.name}"'
            raise invalid(one.span, message, hint="Give each its own name.")
        names_in_use.add(fold(one.name))
    named_constraints = []
    for one in constraints:
        name = one.name or _free_name(one, names_in_use)
        names_in_use.add(fold(name))
        named_constraints.append(replace(one, name=name))
    return tuple(named_constraints)


def check_of_table(constraint: ConstraintDef, table: str) -> None:
    """Raise NOT_SUPPORTED for a constraint that Delta lacks; ``table`` is the name as typed."""
    if constraint.unique:
        raise refusal(constraint.span, "UNIQUE of a table", name=table)
    if constraint.action is not OnViolation.FAIL:
        raise refusal(constraint.span, "ON VIOLATION of a table", name=table)


def _free_name(constraint: ConstraintDef, names_in_use: set[str]) -> str:
    """A name like ``v_check``, ``k_not_null``, ``check``, then ``check_2``."""
    kind = "not_null" if constraint.columns else "check"
    if constraint.unique:
        kind = "unique"
    columns = constraint.columns or ((constraint.column,) if constraint.column else ())
    return free_name("_".join([*columns, kind]), names_in_use)


def constraint_text(constraint: ConstraintDef) -> str:
    """A constraint as one of a whole row, with its name."""
    column_list = ", ".join(map(quote, constraint.columns))
    if constraint.predicate is not None:
        rule = f"CHECK ({constraint.predicate.span.text})"
    else:
        rule = f"{'UNIQUE' if constraint.unique else 'NOT NULL'} ({column_list})"
    fate = (
        "" if constraint.action is OnViolation.FAIL else f" ON VIOLATION {constraint.action.value}"
    )
    return f"CONSTRAINT {quote(constraint.name)} {rule}{fate}"
