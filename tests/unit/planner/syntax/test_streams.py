"""Streaming tables and the flows that append to them."""

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.planner.binding.streams import check_appends
from ctsql.planner.ivm.algebra.spark_functions import AGGREGATES, GENERATORS, SCALARS
from ctsql.planner.syntax.ast import Appending, CreateAppendFlow, CreateStreamingTable
from ctsql.planner.syntax.tokens.rewrite import rewrite
from ctsql.planner.syntax.tokens.session_calls import with_schema
from ctsql.planner.syntax.tokens.sqltext import analyse
from tests.helpers.parsed import parsed


def _appending(query: str) -> Appending:
    made = parsed(f"CREATE STREAMING TABLE x AS {query}")
    assert isinstance(made, CreateStreamingTable)
    assert made.appending is not None
    return made.appending


@pytest.mark.parametrize(
    ("query", "inserts", "fills", "sources"),
    [
        ("SELECT * FROM STREAM t", "SELECT * FROM t", "SELECT * FROM contents(t) AS `t`", ["t"]),
        (
            "SELECT s.a, d.b FROM STREAM(z.t) AS s JOIN z.d ON z.d.a = s.a",
            "SELECT s.a, d.b FROM z.t AS s JOIN contents(z.d) AS `d` ON d.a = s.a",
            "SELECT s.a, d.b FROM contents(z.t) AS s JOIN contents(z.d) AS `d` ON d.a = s.a",
            ["t"],
        ),
        (
            "SELECT a FROM STREAM t UNION ALL SELECT a FROM STREAM u, t AS old WHERE old.a = u.a",
            "SELECT a FROM t UNION ALL SELECT a FROM u, contents(t) AS old WHERE old.a = u.a",
            "SELECT a FROM contents(t) AS `t` UNION ALL SELECT a FROM contents(u) AS `u`, "
            "contents(t) AS old WHERE old.a = u.a",
            ["t", "u"],
        ),
        (
            "WITH e AS (SELECT * FROM STREAM t) SELECT * FROM e",
            "WITH e AS (SELECT * FROM t) SELECT * FROM e",
            "WITH e AS (SELECT * FROM contents(t) AS `t`) SELECT * FROM e",
            ["t"],
        ),
    ],
)
def test_a_stream_is_an_input(query: str, inserts: str, fills: str, sources: list[str]) -> None:
    """All else is read whole; where a flow begins, so is the stream."""
    made = _appending(query)
    assert made.inserts == f"INSERT INTO x {inserts}"
    assert made.fills == f"INSERT INTO x {fills}"
    assert [s.parts[-1] for s in made.sources] == sources


@pytest.mark.parametrize(
    "rest",
    [
        "SELECT a, stream FROM {}",
        "SELECT watermark, max(a) AS watermark FROM {} GROUP BY watermark",
        "SELECT a, stream b, concat(a, stream) FROM {}",
        "SELECT a FROM {} WHERE (stream IS NULL) OR a IN (1, stream) OR ((stream LIKE 'x'))",
        "SELECT a FROM {} WHERE a IS DISTINCT FROM stream AND a > 1",
        "SELECT a FROM {} ORDER BY a, stream DESC",
        "SELECT sum(a) OVER (PARTITION BY a, stream ROWS 1 PRECEDING) FROM {}",
    ],
)
def test_a_column_may_be_called_stream(rest: str) -> None:
    """The word means an input only where a relation may stand; WATERMARK comes with DELAY OF."""
    assert _appending(rest.format("STREAM t")).inserts == f"INSERT INTO x {rest.format('t')}"


@pytest.mark.parametrize(
    ("query", "inserts"),
    [
        ("SELECT * FROM a, STREAM t", "SELECT * FROM contents(a) AS `a`, t"),
        (
            "SELECT * FROM (SELECT 1, 2) AS a JOIN b ON a.c = b.c, STREAM t",
            "SELECT * FROM (SELECT 1, 2) AS a JOIN contents(b) AS `b` ON a.c = b.c, t",
        ),
        ("SELECT * FROM (a, STREAM t)", "SELECT * FROM (contents(a) AS `a`, t)"),
        (
            "SELECT * FROM (STREAM t JOIN a ON true)",
            "SELECT * FROM (t JOIN contents(a) AS `a` ON true)",
        ),
    ],
)
def test_a_stream_may_stand_in_a_list(query: str, inserts: str) -> None:
    assert _appending(query).inserts == f"INSERT INTO x {inserts}"


def test_a_stream_may_have_any_name() -> None:
    made = _appending("SELECT * FROM STREAM `a``b`")
    assert made.fills == "INSERT INTO x SELECT * FROM contents(`a``b`) AS `a``b`"


def test_the_clauses_of_a_table_and_of_a_flow() -> None:
    """What is there besides the query."""
    made = parsed(
        "CREATE OR REFRESH STREAMING TABLE s.x (a INT NOT NULL, b STRING) COMMENT 'it''s'"
        " SCHEDULE REFRESH EVERY 2 HOURS AS SELECT * FROM STREAM t"
    )
    assert isinstance(made, CreateStreamingTable)
    assert (made.or_refresh, made.comment, made.every) == (True, "it's", "2 hours")
    assert made.column_list == "(a INT NOT NULL, b STRING)"
    assert [c.nullable for c in made.columns] == [False, True]
    bare = parsed("CREATE STREAMING TABLE IF NOT EXISTS x")
    assert isinstance(bare, CreateStreamingTable)
    assert (bare.if_not_exists, bare.appending, bare.column_list) == (True, None, "")
    for words in ("INSERT INTO ONCE x", "INSERT ONCE INTO x"):
        flow = parsed(f"CREATE OR REPLACE FLOW f AS {words} BY NAME SELECT a FROM t")
        assert isinstance(flow, CreateAppendFlow)
        assert (flow.once, flow.or_replace, flow.appending.sources) == (True, True, ())
        assert flow.appending.fills == "INSERT INTO x BY NAME SELECT a FROM contents(t) AS `t`"


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        ("TABLE x AS SELECT * FROM t", "INVALID_STATEMENT", "SELECT * FROM t"),
        ("TABLE x AS SELECT * FROM stream", "INVALID_STATEMENT", "SELECT * FROM stream"),
        ("TABLE x AS SELECT * FROM STREAM read_files('a')", "NOT_SUPPORTED", "STREAM"),
        ("TABLE x AS SELECT * FROM STREAM((SELECT 1))", "NOT_SUPPORTED", "STREAM"),
        ("TABLE x AS SELECT * FROM STREAM t WITH (SKIPCHANGECOMMITS)", "NOT_SUPPORTED", "WITH"),
        (
            "TABLE x AS SELECT * FROM STREAM t WATERMARK a.b DELAY OF INTERVAL 1 DAY AS e",
            "NOT_SUPPORTED",
            "WATERMARK",
        ),
        ("TABLE x PARTITIONED BY (a) AS SELECT * FROM STREAM t", "NOT_SUPPORTED", "PARTITIONED"),
        ("TABLE x TBLPROPERTIES ('delta.a' = 'b')", "NOT_SUPPORTED", "'delta.a'"),
        ("TABLE x SCHEDULE CRON '0 0 3 * * ?'", "NOT_SUPPORTED", "CRON"),
        ("TABLE x SCHEDULE EVERY 1 DAY", "INVALID_STATEMENT", None),
        ("TABLE x (a INT, CONSTRAINT c EXPECT (a > 1))", "NOT_SUPPORTED", "EXPECT"),
        ("TABLE x FLOW INSERT BY NAME SELECT 1", "NOT_SUPPORTED", "FLOW"),
        ("TABLE x AS", "SYNTAX_ERROR", ""),
    ],
)
def test_what_cannot_be_honoured_is_refused(text: str, condition: str, place: str | None) -> None:
    """By name, at its place."""
    with pytest.raises(CtsqlError) as refused:
        parsed(f"CREATE STREAMING {text}")
    assert refused.value.condition == condition
    assert refused.value.span is not None
    assert place is None or refused.value.span.text == place


@pytest.mark.parametrize(
    "text",
    [
        "CREATE OR REPLACE STREAMING TABLE x AS SELECT * FROM STREAM t",
        "CREATE FLOW f COMMENT 'c' AS INSERT INTO x SELECT * FROM STREAM t",
        "REFRESH STREAMING TABLE x FULL",
        "SHOW STREAMING TABLES",
        "SHOW DYNAMIC TABLES",
        "APPLY CHANGES INTO x FROM t KEYS (a) SEQUENCE BY b",
    ],
)
def test_other_statements_are_refused_by_name(text: str) -> None:
    with pytest.raises(CtsqlError) as refused:
        parsed(text)
    assert refused.value.condition == "NOT_SUPPORTED"
    assert refused.value.hint


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, upper(b) FROM STREAM t WHERE a > 1 AND b IN (SELECT max(b) FROM d)",
        "SELECT (SELECT max(a) FROM d), b FROM STREAM t s LEFT JOIN d ON s.a = d.a",
        "SELECT * FROM (SELECT * FROM d GROUP BY ALL) x JOIN STREAM t USING (a)",
        "SELECT * FROM d RIGHT JOIN STREAM t s ON s.a = d.a",
        "SELECT * FROM (STREAM t s LEFT JOIN d ON s.a = d.a)",
        "SELECT * FROM STREAM t s LEFT ANTI JOIN d USING (a)",
        "SELECT * FROM STREAM t UNION ALL SELECT * FROM STREAM u",
        "SELECT * FROM (SELECT a FROM STREAM t) WHERE a > 1",
        "WITH e AS (SELECT * FROM STREAM t), g AS (SELECT * FROM e WHERE a > 1) SELECT * FROM g",
        "SELECT a, x FROM STREAM t LATERAL VIEW explode(arr) e AS x",
        "SELECT aggregate(arr, 0, (x, y) -> x + y) FROM STREAM t",
        "FROM STREAM t |> WHERE a > 1",
    ],
)
def test_rows_that_are_taken_one_by_one_may_be_streamed(query: str) -> None:
    made = _appending(query)
    check_appends(made.query, made.query.span)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT DISTINCT a FROM STREAM t", "DISTINCT over a stream"),
        ("SELECT a, count(*) FROM STREAM t GROUP BY a", "GROUP BY over a stream"),
        ("SELECT max(a) FROM (SELECT a FROM STREAM t) x", "an aggregate over a stream"),
        ("SELECT a, lag(a) OVER (ORDER BY a) FROM STREAM t", "a window over a stream"),
        ("(SELECT a FROM STREAM t) LIMIT 3", "LIMIT over a stream"),
        ("SELECT a FROM STREAM t UNION ALL SELECT a FROM STREAM u ORDER BY a", "ORDER BY over a"),
        ("SELECT * FROM STREAM t UNION SELECT * FROM u", "DISTINCT over a stream"),
        ("SELECT * FROM STREAM t EXCEPT SELECT * FROM u", "EXCEPT over a stream"),
        ("SELECT * FROM STREAM t UNION ALL SELECT * FROM d", "UNION ALL of a stream and of what"),
        ("VALUES (1) UNION ALL SELECT a FROM STREAM t", "UNION ALL of a stream and of what"),
        (
            "SELECT * FROM (SELECT a FROM STREAM t UNION ALL SELECT a FROM STREAM u UNION ALL "
            "SELECT a FROM d)",
            "UNION ALL of a stream and of what",
        ),
        (
            "WITH e AS (SELECT * FROM STREAM t) SELECT * FROM e UNION ALL SELECT * FROM d",
            "UNION ALL of a stream and of what",
        ),
        ("WITH e AS (SELECT * FROM STREAM t) SELECT * FROM d", "a stream in a WITH that nothing"),
        ("SELECT * FROM STREAM t PIVOT (sum(a) FOR b IN (1, 2))", "PIVOT over a stream"),
        ("SELECT * FROM STREAM t s JOIN STREAM u USING (a)", "a join of two streams"),
        (
            "WITH e AS (SELECT * FROM STREAM t) SELECT * FROM e JOIN e AS f USING (a)",
            "a join of two",
        ),
        ("WITH e AS (SELECT * FROM STREAM t) SELECT count(*) FROM e", "an aggregate over a stream"),
        ("SELECT * FROM d LEFT JOIN STREAM t s ON s.a = d.a", "LEFT JOIN over a stream"),
        ("SELECT * FROM STREAM t s FULL JOIN d USING (a)", "FULL JOIN over a stream"),
        ("SELECT * FROM (d LEFT JOIN STREAM t s ON s.a = d.a)", "LEFT JOIN over a stream"),
        ("SELECT * FROM (STREAM t s JOIN STREAM u ON s.a = u.a)", "a join of two streams"),
        ("SELECT * FROM e JOIN (d LEFT JOIN STREAM t USING (a)) USING (a)", "LEFT JOIN over a"),
        ("SELECT * FROM d WHERE a IN (SELECT a FROM STREAM t)", "a subquery in an expression"),
        (
            "SELECT * FROM d JOIN e ON d.a = e.a AND d.a IN (SELECT a FROM STREAM t)",
            "a subquery in an expression",
        ),
        ("FROM STREAM t |> AGGREGATE count(*)", "an aggregate over a stream"),
    ],
)
def test_what_combines_rows_of_a_stream_is_refused(query: str, what: str) -> None:
    """Over the rows of one T it would give something else than over all rows."""
    made = _appending(query)
    with pytest.raises(CtsqlError) as refused:
        check_appends(made.query, made.query.span)
    assert refused.value.condition == "NOT_SUPPORTED"
    assert refused.value.message.startswith(what)


def test_every_function_is_known_for_what_it_is() -> None:
    """Each aggregate of Spark is refused, and no function of one row is."""

    def passes(name: str, arguments: str) -> bool:
        try:
            made = _appending(f"SELECT {name}({arguments}) FROM STREAM t")
        except CtsqlError:
            return name in SCALARS | GENERATORS  # not a text of that function
        try:
            check_appends(made.query, made.query.span)
        except CtsqlError:
            return False
        return True

    assert [f for f in sorted(AGGREGATES) if passes(f, "a")] == []
    assert [f for f in sorted(SCALARS | GENERATORS) if not passes(f, "a, b")] == []


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("SELECT current_schema()", "SELECT 's' AS `current_schema()`"),
        ("SELECT 1, CURRENT_DATABASE(), 2", "SELECT 1, 's' AS `current_database()`, 2"),
        ("SELECT current_schema() AS c", "SELECT 's' AS c"),
        ("SELECT concat('a', current_schema(), 'b')", "SELECT concat('a', 's', 'b')"),
        ("SELECT (1, current_schema())", "SELECT (1, 's')"),
        ("VALUES (1, current_schema())", "VALUES (1, 's')"),
        ("SELECT 1 WHERE current_schema() = 'x'", "SELECT 1 WHERE 's' = 'x'"),
        ("SELECT t.current_schema FROM t", "SELECT t.current_schema FROM t AS `t`"),
    ],
)
def test_the_schema_of_the_connection_stands_for_the_calls(text: str, made: str) -> None:
    """A column of the result keeps the name of the call."""
    found = with_schema(analyse(Source(text, "<test>").whole(), form="query"), "s")
    assert rewrite(found, relation=lambda ref: ref.parts[-1]).text == made
