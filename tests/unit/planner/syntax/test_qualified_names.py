"""The relation that a qualified column or star means."""

import pytest

from ctsql.catalog.errors import StatementError
from ctsql.catalog.names import fold
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse_as, rewrite
from ctsql.planner.syntax.ast import Dml, RelationRef, Select
from ctsql.planner.syntax.tokens.name_scopes import QualifiedNames
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.tokenizer import tokenise

COLUMNS = {
    "s.t": ("a", "b"),
    "default.t": ("a", "b"),
    "t": ("a", "b"),
    "x": ("id", "t", "s"),  # t and s are structs
    "s.u": ("a", "t"),
}


def _columns_of(ref: RelationRef) -> tuple[str, ...] | None:
    return COLUMNS.get(fold(ref.span.text))


def _resolved(query: str) -> str:
    text = analyse(tokenise(Source(query).whole()), form="query")
    names = QualifiedNames([text], "default", _columns_of)
    return rewrite(names.applied(text), relation=lambda _: "R").text


@pytest.mark.parametrize(
    ("query", "made"),
    [
        # What no schema qualifies is left to Spark.
        ("SELECT t.a FROM s.t", "SELECT t.a FROM R AS `t`"),
        ("SELECT t.a FROM s.t, t", "SELECT t.a FROM R AS `t`, R AS `t`"),
        ("SELECT s.t.a FROM t", "SELECT s.t.a FROM R AS `t`"),
        ("SELECT s.t.a FROM s.t AS y", "SELECT s.t.a FROM R AS y"),
        ("SELECT s.t.a FROM s.t AS s", "SELECT s.t.a FROM R AS s"),
        ("SELECT s.t.none FROM s.t", "SELECT s.t.none FROM R AS `t`"),
        # The schema is kept, in every form of a name.
        (
            "SELECT s.t.a, S.T.*, `s`.`t`.b.c, x.y FROM s.t",
            "SELECT `s.t`.a, `s.t`.*, `s.t`.b.c, x.y FROM R AS `s.t`",
        ),
        (
            "SELECT default.t.a, t.b FROM t",
            "SELECT `default.t`.a, `default.t`.b FROM R AS `default.t`",
        ),
        (
            "SELECT s.t.a, t.* FROM s.t, default.t",
            "SELECT `s.t`.a, `s.t`.*, `t`.* FROM R AS `s.t`, R AS `t`",
        ),
        (
            "SELECT s.t.a FROM s.t TABLESAMPLE (5 ROWS) REPEATABLE (1)",
            "SELECT `s.t`.a FROM R TABLESAMPLE (5 ROWS) REPEATABLE (1) AS `s.t`",
        ),
        (
            "FROM s.t |> WHERE s.t.a > 1 |> SELECT s.t.b",
            "FROM R AS `s.t` |> WHERE `s.t`.a > 1 |> SELECT `s.t`.b",
        ),
        # The innermost scope decides, and there a table before an alias before a column.
        (
            "SELECT t.a, (SELECT max(t.b) FROM default.t WHERE t.a = s.t.a) FROM s.t",
            "SELECT `s.t`.a, (SELECT max(t.b) FROM R AS `t` WHERE t.a = `s.t`.a) FROM R AS `s.t`",
        ),
        ("SELECT s.t.a FROM x AS s, s.t", "SELECT `s.t`.a FROM R AS s, R AS `s.t`"),
        (
            "SELECT s.t.a, (SELECT max(s.t.a) FROM x AS s) FROM s.t",
            "SELECT `s.t`.a, (SELECT max(s.t.a) FROM R AS s) FROM R AS `s.t`",
        ),
        (
            "SELECT (SELECT max(s.t.a) FROM (SELECT id FROM x) AS s) FROM s.t",
            "SELECT (SELECT max(`s.t`.a) FROM (SELECT id FROM R AS `x`) AS s) FROM R AS `s.t`",
        ),
        (
            "SELECT s.t.b, (SELECT max(s.t.a) FROM x) FROM s.t",
            "SELECT `s.t`.b, (SELECT max(s.t.a) FROM R AS `x`) FROM R AS `s.t`",
        ),
        (
            "SELECT s.t.b, (SELECT max(t.a) FROM x) FROM s.t",
            "SELECT `s.t`.b, (SELECT max(t.a) FROM R AS `x`) FROM R AS `s.t`",
        ),
        (
            "SELECT s.t.b, transform(l, s -> s.t.a), transform(l, y -> y + s.t.a) FROM s.t",
            "SELECT `s.t`.b, transform(l, s -> s.t.a), transform(l, y -> y + `s.t`.a)"
            " FROM R AS `s.t`",
        ),
        # A derived table does not see the sources beside it; LATERAL and ON do.
        (
            "SELECT 1 FROM s.t, (SELECT s.t.a FROM x) AS d",
            "SELECT 1 FROM R AS `t`, (SELECT s.t.a FROM R AS `x`) AS d",
        ),
        (
            "SELECT 1 FROM s.t, LATERAL (SELECT s.t.a) AS d JOIN t ON s.t.b = d.a",
            "SELECT 1 FROM R AS `s.t`, LATERAL (SELECT `s.t`.a) AS d"
            " JOIN R AS `t` ON `s.t`.b = d.a",
        ),
    ],
)
def test_names(query: str, made: str) -> None:
    """Each name is one that Spark resolves to the relation meant, over relations of one alias."""
    assert _resolved(query) == made


def test_ambiguous() -> None:
    """A name that two relations of a scope have is refused, with both."""
    with pytest.raises(StatementError, match="AMBIGUOUS_COLUMN") as raised:
        _resolved("SELECT t.a FROM s.t, default.t WHERE s.t.a = 1")
    assert "s.t.a, default.t.a" in str(raised.value.detail)


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("UPDATE s.t SET s.t.a = s.t.b WHERE s.t.a = 1", ["s.t"] * 3),
        ("DELETE FROM s.t WHERE EXISTS (SELECT 1 FROM t WHERE t.a = s.t.a)", ["t", "s.t"]),
        (
            "MERGE INTO s.t USING t ON s.t.a = default.t.a WHEN MATCHED AND default.t.b > 1 THEN"
            " UPDATE SET t.a = s.t.b WHEN NOT MATCHED THEN INSERT (t.a) VALUES (t.b)"
            " WHEN NOT MATCHED BY SOURCE AND t.a = 1 THEN DELETE",
            ["s.t", "default.t", "default.t", "s.t", "s.t", "s.t", "default.t", "s.t"],
        ),
    ],
)
def test_statements(statement: str, names: list[str]) -> None:
    """A clause of a statement sees the target, the source, or both."""
    dml = parse_as(Dml, statement, "<test>")
    found = QualifiedNames([dml.text], "default", _columns_of)
    keys = [".".join(found.key(ref)) for _, ref in found.qualifiers()]
    assert keys == [name if "." in name else f"default.{name}" for name in names]


def test_a_query_without_names_is_left_alone() -> None:
    """Relations and columns without qualifiers cost nothing."""
    query = parse_as(Select, "SELECT a FROM s.t, t AS u WHERE u.a = 1", "<test>")
    assert query.query.names == ()
