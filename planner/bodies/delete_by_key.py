"""Recognizes DELETEs that find their rows by key: ``DELETE ... WHERE k IN (SELECT a FROM t)``.

    k IN (SELECT a FROM t)         (k, l) IN (SELECT a, b FROM t AS u)         u.k IN (...)

The left side names columns of the output, each once, the right side columns of ``t``, the change of
an input. Such a DELETE computes nothing that could fail on a row, so rows may be read in any order,
deleted ones included. Spark runs any other predicate as it is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ctsql.catalog.names import fold, unquote
from ctsql.planner import nodes as lp
from ctsql.planner.syntax.tokens.tokenizer import Tokens, cut_at_commas, tokenise


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLookup:
    """The output's ``columns`` must equal, in order, the ``keys`` of some row of ``of``."""

    output: lp.SelfReference
    columns: tuple[str, ...]
    of: lp.InputNode
    keys: tuple[str, ...]


def sole_lookup(body: lp.Transaction, output: str) -> KeyLookup | None:
    """Return how the output of this id finds its rows, if a DELETE by key is all that reads it."""
    looking = [
        statement
        for statement in body.statements
        if any(
            isinstance(n, lp.SelfReference) and n.object_id == output for n in lp.descend(statement)
        )
    ]
    if len(looking) != 1 or not isinstance(looking[0], lp.Delete):
        return None
    lookup = key_lookup(looking[0])
    return lookup if lookup is not None and lookup.output.object_id == output else None


def key_lookup(delete: lp.Delete) -> KeyLookup | None:
    """Return how a DELETE finds its rows, if it is by key."""
    where, output = delete.where, delete.of
    if where is None or delete.ctes is not None:
        return None
    if len(where.relations) != 1 or where.sql.edits or where.sql.parameters:
        return None
    (of,) = where.relations
    if not isinstance(of, lp.InputNode):
        return None
    tokens = tokenise(where.sql.span)
    split = _split(tokens)
    if split is None:
        return None
    operand, select_list, behind = split
    (ref,) = where.sql.relations
    alias = _alias(behind, ref.span.start, ref.span.stop, ref.parts[-1])
    if alias is None:
        return None
    columns = _columns(operand, output.columns, unquote(delete.alias))
    keys = _columns(select_list, of.columns, alias)
    if columns is None or keys is None or len(columns) != len(keys):
        return None
    if len(set(columns)) < len(columns):
        return None
    if isinstance(of, lp.ChangesInput) and of.columns[-1] in keys:
        return None  # how many copies changed is no column of the input
    return KeyLookup(output=output, columns=columns, of=of, keys=keys)


def _split(tokens: Tokens) -> tuple[Tokens, Tokens, Tokens] | None:
    """The columns on the left of IN, those that are selected, and the tokens after FROM."""
    words = [t.upper for t in tokens]
    if words.count("IN") != 1 or words.count("SELECT") != 1 or words.count("FROM") != 1:
        return None
    at, source = words.index("IN"), words.index("FROM")
    if words[at + 1 : at + 3] != ["(", "SELECT"] or source < at or words[-1:] != [")"]:
        return None
    operand = tokens[:at]
    if words[:1] == ["("]:
        if words[at - 1] != ")":
            return None
        operand = tokens[1 : at - 1]
    return operand, tokens[at + 3 : source], tokens[source + 1 : -1]


def _alias(behind: Tokens, start: int, stop: int, name: str) -> str | None:
    """The qualifier of the relation's columns; None if FROM has more than this relation."""
    if not behind or behind[0].start != start:
        return None
    rest = [t for t in behind if t.start >= stop]
    if rest and rest[0].upper == "AS":
        rest = rest[1:]
        if not rest:
            return None
    if not rest:
        return name
    return rest[0].text if len(rest) == 1 and rest[0].is_name else None


def _columns(tokens: Tokens, names: Sequence[str], alias: str) -> tuple[str, ...] | None:
    """Names of known columns with commas between them, each perhaps after ``alias`` and a dot."""
    by_name = {fold(name): name for name in names}
    columns = []
    for item in cut_at_commas(tokens):
        if len(item) == 3 and item[1].upper == "." and fold(item[0].text) == fold(alias):
            item = item[2:]
        if len(item) != 1 or not item[0].is_name or fold(item[0].text) not in by_name:
            return None
        columns.append(by_name[fold(item[0].text)])
    return tuple(columns) if columns else None
