"""Relations and other places are found in all of Spark SQL, and replaced in the user's text."""

import pytest
from hypothesis import given, strategies as st

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import rewrite, splice
from ctsql.planner.syntax.ast import Edit
from ctsql.planner.syntax.tokens.sqltext import analyse
from ctsql.planner.syntax.tokens.tokenizer import tokenise

# Text with each relation marked: <name> gets an alias, <name!> does not.
QUERIES = [
    "SELECT 1",
    "SELECT * FROM <t>",
    "SELECT * FROM <t!> x",
    "SELECT * FROM <t!> AS x (a, b)",
    "SELECT * FROM <s.t!> x JOIN <s2.`t u`!> y ON x.a = y.a",
    "SELECT `a``b` FROM <`x``y`.`z`>",
    "SELECT 'é', \"日本\", '𝒳' FROM <tablé> -- from u\n WHERE /* from w */ x = ' from y '",
    "FROM <t>",
    "FROM <t> SELECT a WHERE a > 1",
    "FROM <t> |> WHERE x > 1 |> SELECT x |> AGGREGATE sum(x) AS s GROUP BY y",
    "FROM <t> |> JOIN <u> ON t.a = u.a |> ORDER BY 1 |> LIMIT 3",
    "FROM <t> |> EXTEND x + 1 AS y |> SET x = 2 |> DROP y |> AS q |> UNION ALL (SELECT * FROM <u>)",
    "FROM <t> |> RENAME a AS b",
    "SELECT * FROM VALUES (default.t.a, 1), (DEFAULT.t.b, 2) AS v, <t>",
    "SELECT a !> 1, a !< 2, a >>> 3, a << 1 FROM <t>",
    "SELECT a FROM <t> -- to Spark the comment goes on \\\n, u\nWHERE true",
    "SELECT * FROM <t> ORDER BY a |> LIMIT 3",
    "FROM <t> |> PIVOT (sum(a) FOR b IN (1, 2))",
    "TABLE <t!>",
    "SELECT * FROM <u> UNION ALL TABLE <t!>",
    "WITH c AS (TABLE <t!>) TABLE c",
    "SELECT * FROM f(TABLE(<t!>))",
    "SELECT * FROM f(TABLE(<s.t!>) PARTITION BY a ORDER BY b)",
    "SELECT * FROM f(TABLE(SELECT * FROM <t>))",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT * FROM VALUES (1, 2) AS v(a, b)",
    "SELECT * FROM range(10) r, <t>",
    "SELECT * FROM <t>, (SELECT 1) AS s, <u>",
    "SELECT * FROM (<t> JOIN <u> ON t.a = u.a)",
    "SELECT * FROM <t1> JOIN <t2> JOIN <t3> ON t2.x = t3.x ON t1.y = t2.y",
    "SELECT * FROM <a> LEFT SEMI JOIN <b> ON true ANTI JOIN <c> USING (x) NATURAL JOIN <d>",
    "SELECT * FROM <a>, LATERAL (SELECT * FROM <b> WHERE b.x = a.x) q",
    "SELECT * FROM <t> LATERAL VIEW OUTER explode(x) tt AS c, d",
    "SELECT * FROM <t> PIVOT (sum(x) AS s FOR (a, b) IN ((1, 2) AS p)) AS q",
    "SELECT * FROM <t> UNPIVOT INCLUDE NULLS (v FOR k IN (a AS x, b))",
    "(SELECT a FROM <t> EXCEPT ALL SELECT a FROM <u>) INTERSECT SELECT a FROM <w> MINUS SELECT 1",
    "SELECT a FROM <t> UNION BY NAME SELECT b FROM <u>",
    "SELECT (SELECT max(x) FROM <u>) FROM <t> WHERE EXISTS (SELECT 1 FROM <w>) AND a"
    " IN (SELECT 1 FROM <z>)",
    "SELECT /*+ BROADCAST(u) */ * FROM <t> JOIN <u> USING (a)",
    "SELECT * EXCEPT (a), t.* EXCEPT (b) FROM <t>",
    "SELECT transform(arr, x -> x + 1), filter(m, (k, v) -> k > 0), f(name => 'q') FROM <t>",
    "SELECT row_number() OVER (PARTITION BY b ORDER BY c ROWS UNBOUNDED PRECEDING)"
    " rn FROM <t> QUALIFY rn = 1",
    "SELECT sum(a) OVER w FROM <t> WINDOW w AS (PARTITION BY b)",
    "SELECT glob.a AS notnull FROM <t!> AS glob ORDER BY returning, xor",
    "SELECT a, count(*) FROM <t> GROUP BY ALL ORDER BY ALL",
    "SELECT a FROM <t> GROUP BY GROUPING SETS ((a), ())",
    "SELECT window.start FROM <t> GROUP BY window(ts, '5 minutes')",
    "SELECT sum(a) OVER w FROM <t> GROUP BY window(ts, '5 minutes') WINDOW w AS (ORDER BY b)",
    "SELECT v:a.b[0]::int, v:a[0].b['c']::string, v:[0], v:`x y` FROM <t>",
    "SELECT v:a[0], cast(s AS struct<x:int>) FROM <t>",
    "SELECT INTERVAL '1' DAY, INTERVAL '1-2' YEAR TO MONTH, INTERVAL 3 DAYS 2 HOURS FROM <t>",
    r"SELECT 'it\'s from x', r'raw\n', X'1F' FROM <t>",
    "SELECT 1L, 2S, 3Y, 1.5BD, 1e10 FROM <t>",
    "SELECT a IS DISTINCT FROM b, extract(year FROM d), trim(BOTH 'x' FROM s) FROM <t>",
    "SELECT s.a.b, arr[0].c, m['k'], (SELECT named_struct('x', 1)).x FROM <t>",
    "WITH a AS (WITH b AS (SELECT * FROM <t>) SELECT * FROM b), c AS (SELECT * FROM"
    " a) SELECT * FROM c JOIN <b>",
    "WITH a AS (SELECT * FROM <a>) SELECT * FROM A",
    "WITH a AS (SELECT * FROM <b>), b AS (SELECT 1) SELECT * FROM a, b",
    "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) x JOIN <t>",
    "WITH t AS (SELECT 1) SELECT * FROM <s.t!> x, t",
    "WITH t AS (SELECT 1) SELECT (SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM t, <u>))",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, <t>) SELECT * FROM r",
    "WITH RECURSIVE r(n) MAX RECURSION LEVEL 9 AS (SELECT 1 UNION ALL SELECT 2 FROM"
    " r) SELECT * FROM r",
    "SELECT count(*) FILTER (WHERE a > 1), listagg(a, ',') WITHIN GROUP (ORDER BY a) FROM <t>",
    "SELECT timestamp, date, index, key, value, comment, format FROM <t>",
    "SELECT\n  a -- one\n, b /* two */\nFROM\n  <t>",
]


def _expected(marked: str) -> tuple[str, str, list[str]]:
    """The text, the text with every relation replaced, and the relations."""
    plain, replaced = "", ""
    names: list[str] = []
    for index, piece in enumerate(marked.replace("struct<x:int>", "struct\0").split("<")):
        name, closed, rest = piece.partition(">")
        if index == 0 or not closed or not name.rstrip("!").strip("`")[:1].isalpha():
            plain += ("<" if index else "") + piece
            replaced += ("<" if index else "") + piece
            continue
        typed = name.rstrip("!")
        last = typed.split(".")[-1]
        quoted = last if last.startswith("`") else f"`{last}`"
        plain += typed + rest
        replaced += f"__r{len(names)}" + ("" if name.endswith("!") else f" AS {quoted}") + rest
        names.append(typed)
    back = "struct<x:int>"
    return plain.replace("struct\0", back), replaced.replace("struct\0", back), names


@pytest.mark.parametrize("marked", QUERIES)
def test_relations(marked: str) -> None:
    """Every relation is found, and the new text differs from the user's at relations only."""
    plain, replaced, names = _expected(marked)
    text = analyse(tokenise(Source(plain).whole()), form="query")
    assert [ref.span.text for ref in text.relations] == names
    numbers = {ref.span: f"__r{i}" for i, ref in enumerate(text.relations)}
    made = rewrite(text, relation=lambda ref: numbers[ref.span])
    assert made.text == replaced
    for offset in range(len(made.text)):
        assert text.span.start <= made.origin(offset) <= text.span.stop
    end = made.text.rfind(plain[-3:])
    if names and end > made.text.rfind("__r"):
        assert made.origin(len(made.text) - 1) == len(plain) - 1 or made.text.endswith("`")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("SELECT s.t.a FROM s.t AS s", "SELECT s.t.a FROM R AS s"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS)", "SELECT * FROM R TABLESAMPLE (5 ROWS) AS `t`"),
        ("SELECT * FROM t TABLESAMPLE", "SELECT * FROM R AS `t` TABLESAMPLE"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) x", "SELECT * FROM R TABLESAMPLE (5 ROWS) x"),
        (
            "SELECT a::int8, b::text[0], CAST(c AS array<float8>), try_cast(d AS varchar), text",
            "SELECT a::BIGINT, b::STRING[0], CAST(c AS array<DOUBLE>), try_cast(d AS STRING), text",
        ),
        (
            "SELECT cast(cast(x AS text) AS int4), cast(y AS struct<text: text, bool int2>)",
            "SELECT cast(cast(x AS STRING) AS INT), cast(y AS struct<text: STRING, bool SMALLINT>)",
        ),
        (
            "SELECT x::varchar(3), y::double precision, z::numeric(3,1), 'a::text', u::timestamptz",
            "SELECT x::varchar(3), y::DOUBLE, z::numeric(3,1), 'a::text', u::TIMESTAMP",
        ),
    ],
)
def test_rewrite(text: str, result: str) -> None:
    """Samples keep their place, types get Spark's names."""
    found = analyse(tokenise(Source(text).whole()), form="query")
    assert rewrite(found, relation=lambda _: "R").text == result


def test_clocks_and_parameters() -> None:
    """Only calls of the clock are replaced, and each ? by its own literal."""
    text = (
        "SELECT now(), current_timestamp, current_date(), localtimestamp, unix_timestamp(), ? , "
        "unix_timestamp(x), now, `now`(), t.current_date, 1 AS current_date, 'now()' FROM t"
        " WHERE a = ?"
    )
    found = analyse(tokenise(Source(text).whole()), form="query")
    assert [c.span.text for c in found.clocks] == [
        "now()",
        "current_timestamp",
        "current_date()",
        "localtimestamp",
        "unix_timestamp()",
    ]
    made = rewrite(found, relation=lambda _: "R", at="t", parameters=["'?'", "2"])
    assert made.text == (
        "SELECT timestamp_millis(t), timestamp_millis(t), CAST(timestamp_millis(t) AS DATE), "
        "CAST(timestamp_millis(t) AS TIMESTAMP_NTZ), CAST(floor(t / 1000) AS BIGINT), '?' , "
        "unix_timestamp(x), now, `now`(), t.current_date, 1 AS current_date, 'now()'"
        " FROM R AS `t` WHERE a = 2"
    )
    with pytest.raises(CtsqlError, match="PARAMETER_MISMATCH"):
        rewrite(found, relation=lambda _: "R")


def test_nondeterministic() -> None:
    """Functions that do not depend on the data are found by name, and only when called."""
    text = (
        "SELECT rand(), UUID(), t.rand(), rand, `rand`(1), current_user, user(), user, version()"
        " FROM t TABLESAMPLE (1 PERCENT)"
    )
    found = analyse(tokenise(Source(text).whole()), form="query")
    names = ["rand", "uuid", "current_user", "user", "version", "TABLESAMPLE"]
    assert [f.name for f in found.nondeterministic] == names
    text = "SELECT TIMESTAMP'now', date ' Today UTC', DATE'2024-01-01', 'now' AS date FROM t"
    found = analyse(tokenise(Source(text).whole()), form="query")
    assert [f.name for f in found.nondeterministic] == ["TIMESTAMP 'now'", "DATE ' Today UTC'"]


@pytest.mark.parametrize(
    ("text", "condition", "place"),
    [
        ("SELECT * FROM a.b.c", "INVALID_NAME", "a.b.c"),
        ("SELECT * FROM a.b.c.d x", "INVALID_NAME", "a.b.c.d"),
        ("SELECT * FROM t VERSION AS OF 3", "NOT_SUPPORTED", "VERSION AS OF"),
        ("SELECT * FROM t TIMESTAMP AS OF '2020-01-01' x", "NOT_SUPPORTED", "TIMESTAMP AS OF"),
        ("SELECT * FROM t@v1", "NOT_SUPPORTED", "t@v1"),
        ("SELECT * FROM identifier('t')", "NOT_SUPPORTED", "identifier"),
        ("SELECT * FROM u JOIN STREAM(t) x", "NOT_SUPPORTED", "STREAM"),
        ("SELECT a FRM t WHERE x", "SYNTAX_ERROR", "FRM"),
        ("SELECT 'é日𝒳',\n a b c FROM t", "SYNTAX_ERROR", "c"),
        ("SELECT a,\r\n (b c d)\r\nFROM t", "SYNTAX_ERROR", "d"),
        ("SELECT * FROM t WHERE x = ", "SYNTAX_ERROR", "="),
        ("SELECT window(a, 'b') x y FROM t", "SYNTAX_ERROR", "y"),
        ("a + b", "SYNTAX_ERROR", "a"),
        ("SELECT x'zz'", "SYNTAX_ERROR", "x'zz'"),
    ],
)
def test_refused(text: str, condition: str, place: str) -> None:
    """A mistake is shown at its own place, wherever the piece stands in the source."""
    for before, after in [("", ""), ("-- é\nSELECT 1; ", " ; x")]:
        source = Source(before + text + after)
        span = source.whole().part(len(before), len(before) + len(text))
        with pytest.raises(CtsqlError, match=condition) as raised:
            analyse(tokenise(span), form="query")
        assert raised.value.span is not None
        assert raised.value.span.text == place
        assert len(before) <= raised.value.span.start <= len(before) + len(text)


def test_predicate() -> None:
    """A predicate's relations and mistakes have places in the whole text."""
    source = Source("DELETE FROM t WHERE k IN (SELECT k FROM a)")
    start = source.text.index("k IN")
    found = analyse(tokenise(source.whole().part(start, len(source.text))), form="predicate")
    assert [ref.span.text for ref in found.relations] == ["a"]
    assert rewrite(found, relation=lambda _: "R").text == "k IN (SELECT k FROM R AS `a`)"


@given(st.data())
def test_splice_keeps_everything_else(data: st.DataObject) -> None:
    """Text outside of edits is kept, and every kept character is traced back to itself."""
    text = data.draw(st.text(max_size=30))
    source = Source("xx" + text + "yy")
    span = source.whole().part(2, 2 + len(text))
    cuts = sorted(data.draw(st.lists(st.integers(2, 2 + len(text)), max_size=6)))
    edits = [
        Edit(span=span.part(a - 2, b - 2), text=data.draw(st.text(max_size=5)))
        for a, b in zip(cuts[::2], cuts[1::2], strict=False)
        if a < b
    ]
    made = splice(span, reversed(edits))
    inside = {i for e in edits for i in range(e.span.start, e.span.stop)}
    kept = [i for i in range(2, 2 + len(text)) if i not in inside]
    traced = [made.origin(i) for i in range(len(made.text))]
    assert [i for i in traced if i not in inside] == kept
    assert all(source.text[o] == made.text[i] for i, o in enumerate(traced) if o in kept)
    assert made.origin(len(made.text)) == span.stop


def test_splice_refuses_overlap() -> None:
    """Two edits of the same characters are a defect of the caller."""
    span = Source("abcdef").whole()
    edits = [Edit(span=span.part(0, 3), text="x"), Edit(span=span.part(2, 4), text="y")]
    with pytest.raises(ValueError, match="overlaps"):
        splice(span, edits)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("'it''s'", "it's"),
        ("'a' 'b'", "ab"),
        ('"say ""it"""', 'say "it"'),
        ("'a'\n  'b' 'c'", "abc"),
        ("'a'\"b\"", "ab"),
        ("''", ""),
        ("''''", "'"),
    ],
)
def test_strings_that_follow_each_other_are_one(typed: str, meant: str) -> None:
    """As in Spark: a doubled quote is a quote, strings side by side are joined."""
    (token,) = tokenise(Source(typed, "<test>").whole())
    assert (token.text, token.span.text) == (meant, typed)
