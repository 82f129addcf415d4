"""WHY follows rows through views and runs of tasks down to the rows of source tables."""

from typing import Any

import pytest

from ctsql.api import Connection, connect
from tests.conftest import TEST_MASTER
from tests.scenarios.runner import expect_error

pytestmark = pytest.mark.spark

MADE = """
CREATE TABLE orders (id INT, who STRING, amount DOUBLE);
CREATE TABLE people (name STRING, country STRING);
CREATE CONTINUAL TASK big (id INT, who STRING, amount DECIMAL(10,1)) ON INPUT orders AS (
    DELETE FROM big WHERE id IN (SELECT id FROM orders);
    INSERT INTO big SELECT id, who, max(amount) FROM orders WHERE amount > 10 GROUP BY id, who;
);
CREATE CONTINUAL TASK gone ON INPUT orders AS (
    INSERT INTO gone SELECT d.id, p.country, now() AS at FROM deletes(orders) d
    JOIN people p ON d.who = p.name
);
CREATE CONTINUAL TASK total (n INT) ON INPUT big AS (
    INSERT INTO total SELECT coalesce((SELECT max(n) FROM total), 0) + count(*) FROM big
);
CREATE MATERIALIZED VIEW by_country AS
    SELECT country, count(*) AS n, sum(amount) AS amount FROM big JOIN people ON who = name
    GROUP BY country;
CREATE VIEW plain AS SELECT id FROM orders;
INSERT INTO people VALUES ('ann', 'FR'), ('bob', 'FR'), ('cy', 'DE');
INSERT INTO orders VALUES (1, 'ann', 20), (1, 'ann', 15), (2, 'bob', 30), (3, 'cy', 5);
SELECT * FROM by_country; SELECT * FROM gone; SELECT * FROM total;
UPDATE orders SET amount = 25 WHERE id = 1 AND amount = 15;
DELETE FROM orders WHERE id = 3;
SELECT * FROM by_country; SELECT * FROM gone; SELECT * FROM total
"""


def _why(con: Connection, text: str) -> list[tuple[Any, ...]]:
    """Level, object, row and note of each line."""
    result = con.execute(text)
    assert result.columns[:2] == ["level", "object"]
    return [(line[0], line[1], line[6], line[8]) for line in result.fetchall()]


def test_views_and_tasks(con: Connection, warehouse: Any) -> None:
    """Each level is exact: changes at the T of the run, references as of it, copies once."""
    con.execute(MADE)
    big = [
        (1, "big", '{"id":2,"who":"bob","amount":30.0}', None),
        (1, "big", '{"id":1,"who":"ann","amount":25.0}', None),
    ]
    orders = [
        (2, "orders", '{"id":1,"who":"ann","amount":25.0}', None),
        (2, "orders", '{"id":2,"who":"bob","amount":30.0}', None),
    ]
    found = _why(con, "WHY by_country WHERE country = 'FR'")
    assert found[0] == (0, "by_country", '{"country":"FR","n":2,"amount":55.0}', None)
    assert [line for line in found if line[1] == "big"] == big
    assert sorted(line for line in found if line[1] == "orders") == orders
    people = [line[2] for line in found if line[1] == "people"]
    assert people == ['{"name":"ann","country":"FR"}', '{"name":"bob","country":"FR"}']
    found_first = found
    con.execute("MAINTAIN ALL")
    assert _why(con, "EXPLAIN ROW by_country WHERE country = 'FR'") == found
    # What was deleted at the T of the run, and a reference.
    assert [line[1:3] for line in _why(con, "WHY gone WHERE id = 3")][1:] == [
        ("orders", '{"id":3,"who":"cy","amount":5.0}'),
        ("people", '{"name":"cy","country":"DE"}'),
    ]
    # Its own rows as of the T before.
    second = con.execute("SELECT max(n) FROM total").fetchone()
    assert second is not None
    found = _why(con, f"WHY total WHERE n = {second[0]}")
    assert [line[1:3] for line in found if line[0] == 1] == [
        ("big", '{"id":1,"who":"ann","amount":25.0}'),
        ("total", '{"n":2}'),
    ]
    with connect(str(warehouse), master=TEST_MASTER, read_only=True) as reader:
        assert _why(reader, "WHY by_country WHERE country = 'FR'") == found_first
    assert _why(con, "WHY plain WHERE id = 2") == [
        (0, "plain", '{"id":2}', None),
        (1, "orders", '{"id":2,"who":"bob","amount":30.0}', None),
    ]
    assert _why(con, "WHY by_country WHERE country = 'IT'") == []


def _below(con: Connection, text: str) -> list[tuple[Any, ...]]:
    """Level, object, statement and row of each line below the first level, sorted."""
    lines = con.execute(text).fetchall()
    return sorted(
        (line[0], line[1], line[5].split(" > Group")[0], line[6]) for line in lines if line[0]
    )


def test_what_cannot_be_told(con: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line says what cannot be told; nothing is guessed."""
    con.execute(
        "CREATE TABLE feed (k INT, v DOUBLE);"
        "CREATE CONTINUAL TASK counted (k INT) WITH (ITERATIONS = 3) ON INPUT feed AS ("
        " INSERT INTO counted SELECT count(*) FROM counted);"
        "CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS v FROM feed GROUP BY k;"
        "INSERT INTO feed VALUES (1, 0.1), (1, 0.2), (NULL, double('NaN')); SELECT * FROM counted"
    )
    monkeypatch.setattr("ctsql.runtime.statements.task_runs.PASSES_MAX", 2)
    told = {line[3] for line in _why(con, "WHY counted WHERE k = 2") if line[0] == 1}
    assert told == {"cannot be told: the body ran more than 2 times at this T"}
    found = _why(con, "WHY sums WHERE k IS NULL")
    assert found[1:] == [
        (1, "feed", '{"k":null,"v":"NaN"}', "v is not compared, as it depends on the order of rows")
    ]


def test_texts_that_are_stored_with_blanks(con: Connection) -> None:
    """Values of CHAR have as many characters as it says, whatever the body gives."""
    con.execute(
        "CREATE TABLE feed (k INT, v TEXT);"
        "CREATE CONTINUAL TASK added (k INT, v CHAR(3), w VARCHAR(3)) ON INPUT feed AS ("
        " INSERT INTO added SELECT k, v, v FROM feed);"
        "CREATE CONTINUAL TASK merged (k INT, v CHAR(3)) ON INPUT feed AS ("
        " MERGE INTO merged AS m USING feed AS f ON m.k = f.k WHEN MATCHED THEN UPDATE SET v = f.v"
        " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (f.k, f.v));"
        "INSERT INTO feed VALUES (1, 'a'), (2, NULL); INSERT INTO feed VALUES (1, 'b')"
    )
    lines = [(line[1], line[2]) for line in _why(con, "WHY added WHERE k = 1")]
    assert lines[2:] == [("feed", '{"k":1,"v":"b"}'), ("feed", '{"k":1,"v":"a"}')]
    lines = [(line[1], line[2]) for line in _why(con, "WHY added WHERE k = 2")]
    assert lines[1:] == [("feed", '{"k":2,"v":null}')]
    lines = [(line[1], line[2]) for line in _why(con, "WHY merged WHERE k = 1")]
    assert lines == [
        ("merged", '{"k":1,"v":"b  "}'),
        ("merged", '{"k":1,"v":"a  "}'),
        ("feed", '{"k":1,"v":"b"}'),
    ]


def test_texts_with_blanks_that_a_later_statement_reads(con: Connection) -> None:
    """They are as long as where the statement reads them; how Spark compares them is not told."""
    con.execute(
        "CREATE TABLE feed (k INT, v TEXT); CREATE TABLE known (v CHAR(4));"
        "INSERT INTO known VALUES ('ab');"
        "CREATE CONTINUAL TASK chain OUTPUTS (head (k INT, v CHAR(4)), tail (k INT, n INT))"
        " ON INPUT feed AS (INSERT INTO head SELECT k, v FROM feed;"
        " INSERT INTO tail SELECT k, length(v) FROM head;"
        " INSERT INTO tail SELECT -k, 0 FROM head JOIN known ON head.v = known.v);"
        "CREATE CONTINUAL TASK gone (v CHAR(4)) ON INPUT feed AS ("
        " INSERT INTO gone SELECT v FROM feed;"
        " DELETE FROM gone WHERE v = 'ab'; INSERT INTO gone SELECT 'ab' FROM feed WHERE k = 2);"
        "INSERT INTO feed VALUES (1, 'ab'), (2, 'cd')"
    )
    assert con.execute("SELECT * FROM tail ORDER BY k").fetchall() == [(-1, 0), (1, 4), (2, 4)]
    from_feed = (1, "feed", '{"k":1,"v":"ab"}', None)
    assert _why(con, "WHY tail WHERE k = 1")[1:] == [from_feed]
    assert from_feed in _why(con, "WHY tail WHERE k = -1")
    untold = (1, "gone", None, "cannot be told: Spark may read this query otherwise")
    from_other = (1, "feed", '{"k":2,"v":"cd"}', None)
    assert _why(con, "WHY gone WHERE v = 'ab'")[1:] == [untold, from_other]
    con.execute("CREATE MATERIALIZED VIEW short AS SELECT count(*) AS n FROM known WHERE v = 'ab'")
    assert _why(con, "WHY short WHERE n = 1")[1:] == [(1, "short", *untold[2:])]
    for text in ("WHY NOT short WHERE n = 7", "WHY NOT head WHERE v = 'x'"):
        ((*_, note),) = con.execute(text).fetchall()
        assert note == untold[3], text


def test_bodies_that_run_several_times(con: Connection) -> None:
    """What a pass reads of what earlier ones made is followed to what these had it from."""
    con.execute(
        "CREATE TABLE parts (whole TEXT, part TEXT);"
        "INSERT INTO parts VALUES ('car', 'wheel'), ('wheel', 'tyre'), ('car', 'door');"
        "CREATE CONTINUAL TASK contains (whole TEXT, part TEXT) ON INPUT parts"
        " WITH (ITERATIONS = FIXPOINT) AS ("
        " INSERT INTO contains SELECT whole, part FROM parts EXCEPT SELECT * FROM contains;"
        " INSERT INTO contains SELECT a.whole, b.part FROM contains AS a JOIN contains AS b"
        " ON a.part = b.whole EXCEPT SELECT * FROM contains);"
        "CREATE TABLE feed (k INT, v INT);"
        "CREATE CONTINUAL TASK grown (k INT, v INT) WITH (ITERATIONS = 3) ON INPUT feed AS ("
        " INSERT INTO grown SELECT k, v FROM feed WHERE k NOT IN (SELECT k FROM grown);"
        " UPDATE grown SET v = v + 1 WHERE k IN (SELECT k FROM feed));"
        "INSERT INTO parts VALUES ('tyre', 'valve'), ('valve', 'spring'); SELECT * FROM contains;"
        "INSERT INTO feed VALUES (1, 0), (2, 0); SELECT * FROM grown;"
        "INSERT INTO feed VALUES (1, 7); SELECT * FROM grown"
    )
    part = '{{"whole":"{}","part":"{}"}}'.format
    found = [line[1:] for line in _below(con, "WHY contains WHERE part = 'spring'") if line[0] == 1]
    assert {(name, row) for name, _, row in found} == {
        ("contains", part("wheel", "tyre")),
        ("contains", part("car", "tyre")),
        ("parts", part("tyre", "valve")),
        ("parts", part("valve", "spring")),
    }
    assert {via.split(" > ")[0] for _, via, _ in found} == {"pass 1", "pass 2"}
    assert con.execute("SELECT * FROM grown ORDER BY k").fetchall() == [(1, 6), (2, 3)]
    assert {(name, row) for level, name, _, row in _below(con, "WHY grown WHERE k = 1")} == {
        ("grown", '{"k":1,"v":3}'),
        ("feed", '{"k":1,"v":7}'),
    }


def test_rows_that_were_sent_through_again(con: Connection) -> None:
    """They come from the quarantine, and a row of the quarantine from what was set aside."""
    con.execute(
        "CREATE TABLE t (k INT, v INT, w STRING);"
        "CREATE CONTINUAL TASK x (k INT, v INT CHECK (v < 100) ON VIOLATION QUARANTINE)"
        " ON INPUT t WITH (ON ERROR = 'quarantine') AS ("
        " INSERT INTO x SELECT k, v + CAST(w AS INT) FROM t);"
        "INSERT INTO t VALUES (1, 1, '1'), (1, 1, 'one'), (2, 200, '0'), (4, 1, 'four');"
        "SELECT * FROM x"
    )

    def below(text: str) -> list[tuple[Any, ...]]:
        """Level, object, statement, row and note of each line below the first level."""
        lines = con.execute(text).fetchall()
        return [
            (line[0], line[1], (line[5] or "").split(" > ")[0], line[6], line[8])
            for line in lines
            if line[0]
        ]

    insert, aside = "statement 1: INSERT", "set aside as it could not be computed"
    # A row at fault has the same key, and the body did not take it.
    assert below("WHY x WHERE k = 1") == [(1, "t", insert, '{"k":1,"v":1,"w":"1"}', None)]
    assert sorted(below("WHY x_quarantine WHERE row_json NOT LIKE '%one%'")) == [
        (1, "t", aside, '{"k":4,"v":1,"w":"four"}', None),
        (1, "t", insert, '{"k":2,"v":200,"w":"0"}', None),
    ]
    con.execute("RETRY QUARANTINE x SET v = v - 150 WHERE constraint_name IS NOT NULL")
    one, two = below("WHY x WHERE k = 2")
    assert one[:3] == (1, "x_quarantine", "RETRY QUARANTINE")
    assert '"k\\":2,\\"v\\":200' in one[3]
    # A retry is another definition, and the one from before is no longer kept.
    assert (two[0], two[3]) == (2, None)
    assert two[4] == "cannot be told: the definition that was in force then is no longer kept"
    con.execute("RETRY QUARANTINE x SET w = '4' WHERE w = 'four'")
    one = below("WHY x WHERE k = 4")[0]
    assert one[:3] == (1, "x_quarantine", insert)
    assert '"w\\":\\"four' in one[3]


def test_subqueries_in_the_condition_of_a_join(con: Connection) -> None:
    """What they found for the rows that the join lets through contributes."""
    con.execute(
        "CREATE TABLE a (k INT, v INT); CREATE TABLE b (k INT, w INT);"
        "CREATE TABLE c (k INT, x INT);"
        "INSERT INTO a VALUES (1, 10), (2, 20), (3, 30); INSERT INTO b VALUES (1, 1), (2, 2);"
        "INSERT INTO c VALUES (1, 10), (1, 11), (3, 30)"
    )
    joins = {
        "SELECT a.k, w FROM a JOIN b ON a.k = b.k AND EXISTS (SELECT 1 FROM c WHERE c.k = a.k)": (
            ["a 1 10", "b 1 1", "c 1 10", "c 1 11"],
            None,
        ),
        "SELECT a.k, w FROM a LEFT JOIN b ON a.k = b.k AND a.v IN (SELECT x FROM c)": (
            ["a 1 10", "b 1 1", "c 1 10"],
            ["a 2 20"],
        ),
        "SELECT a.k, v FROM a LEFT SEMI JOIN b ON a.k = b.k AND a.v IN (SELECT x FROM c)": (
            ["a 1 10", "b 1 1", "c 1 10"],
            None,
        ),
        "SELECT a.k, v FROM a LEFT ANTI JOIN b ON a.k = b.k AND a.v IN (SELECT x FROM c)": (
            None,
            ["a 2 20"],
        ),
    }
    for number, (sql, wanted) in enumerate(joins.items()):
        con.execute(f"CREATE MATERIALIZED VIEW m{number} AS {sql}")
        for k, expected in enumerate(wanted, 1):
            lines = _why(con, f"WHY m{number} WHERE k = {k}")
            assert not [line[3] for line in lines if line[3]], (sql, lines)
            found = sorted(
                " ".join([name, *(p.split(":")[1].strip("}") for p in row.split(","))])
                for level, name, row, _ in lines
                if level
            )
            assert found == (expected or []), (sql, k)
    lines = con.execute("WHY NOT m0 WHERE k = 2").fetchall()
    assert ("Scan c", "never there") in {(line[1], line[4]) for line in lines}


def test_updates_and_merges(con: Connection) -> None:
    """Of a changed row: what it was before, and the rows of that T that changed it."""
    con.execute(
        "CREATE TABLE feed (k INT, v INT);"
        "CREATE CONTINUAL TASK merged (k INT, v INT) ON INPUT feed AS ("
        " MERGE INTO merged USING (SELECT k, max(v) AS v FROM feed GROUP BY k) f ON merged.k = f.k"
        " WHEN MATCHED THEN UPDATE SET v = f.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (k, v));"
        "CREATE CONTINUAL TASK added (k INT, v BIGINT) ON INPUT feed WHERE v > 0 AS ("
        " UPDATE added SET v = v + 1 WHERE k IN (SELECT k FROM feed);"
        " INSERT INTO added SELECT k, sum(v) FROM feed"
        " WHERE NOT EXISTS (SELECT 1 FROM added a WHERE a.k = feed.k) GROUP BY k);"
        "CREATE CONTINUAL TASK net (k INT, n BIGINT) ON INPUT feed AS ("
        " INSERT INTO net SELECT k, sum(diff) FROM changes(feed) GROUP BY k);"
        "INSERT INTO feed VALUES (1, 5), (1, 4), (2, 7), (2, -1);"
        "SELECT * FROM merged; SELECT * FROM added; SELECT * FROM net;"
        "INSERT INTO feed VALUES (1, 6); DELETE FROM feed WHERE k = 2;"
        "SELECT * FROM merged; SELECT * FROM added; SELECT * FROM net"
    )

    def below(text: str) -> list[tuple[Any, ...]]:
        lines = con.execute(text).fetchall()
        return sorted((line[1], line[5].split(" > ")[0], line[6]) for line in lines if line[0])

    matched, fresh = "statement 1: MERGE, WHEN MATCHED", "statement 1: MERGE, WHEN NOT MATCHED"
    assert below("WHY merged WHERE k = 1") == [
        ("feed", matched, '{"k":1,"v":6}'),
        ("merged", matched, '{"k":1,"v":5}'),
    ]
    assert below("WHY merged WHERE k = 2") == [
        ("feed", fresh, '{"k":2,"v":-1}'),
        ("feed", fresh, '{"k":2,"v":7}'),
    ]
    assert below("WHY added WHERE k = 1") == [
        ("added", "statement 1: UPDATE", '{"k":1,"v":9}'),
        ("feed", "statement 1: UPDATE", '{"k":1,"v":6}'),
    ]
    gone = [row for _, _, row in below("WHY net WHERE n = -2")]
    assert gone == ['{"k":2,"v":-1}', '{"k":2,"v":7}']
    lines = con.execute("WHY NOT merged WHERE k = 9").fetchall()
    assert {(line[0], line[1]) for line in lines if line[4] == "never there"} == {
        (matched, "Scan merged"),
        (matched, "Scan feed"),
    }


def test_rows_of_definitions_that_are_gone(con: Connection) -> None:
    """What another body wrote, a replay, or BACKFILL FROM is not told by the body of now."""
    gone = "cannot be told: the definition that was in force then is no longer kept"
    con.execute(
        "CREATE TABLE feed (k INT); CREATE TABLE old (k INT); INSERT INTO old VALUES (-1);"
        "CREATE CONTINUAL TASK x (k INT) ON INPUT feed AS (INSERT INTO x SELECT k FROM feed);"
        "INSERT INTO feed VALUES (1), (2); SELECT * FROM x;"
        "ALTER CONTINUAL TASK x AS (INSERT INTO x SELECT k - 1 FROM feed);"
        "INSERT INTO feed VALUES (5); SELECT * FROM x"
    )
    assert _why(con, "WHY x WHERE k = 1")[1:] == [(1, "x", None, gone)]
    assert _why(con, "WHY x WHERE k = 4")[1:] == [(1, "feed", '{"k":5}', None)]
    con.execute("REPLAY CONTINUAL TASK x FROM '2026-01-01'; INSERT INTO feed VALUES (9)")
    assert _why(con, "WHY x WHERE k = 0")[1:] == [(1, "x", None, gone)]
    assert _why(con, "WHY x WHERE k = 4")[1:] == [(1, "x", None, gone)]
    assert _why(con, "WHY x WHERE k = 8")[1:] == [(1, "feed", '{"k":9}', None)]
    con.execute(
        "CREATE CONTINUAL TASK y (k INT) ON INPUT feed BACKFILL FROM old AS ("
        "INSERT INTO y SELECT -1 FROM feed)"
    )
    copied = "cannot be told: the task began with rows that were copied"
    assert _why(con, "WHY y WHERE k = -1")[1:] == [(1, "y", None, copied)]
    con.execute("CREATE REPLACEMENT CONTINUAL TASK r FOR y FROM '2026-01-01' AS (DELETE FROM r)")
    assert _why(con, "WHY r WHERE k = -1")[1:] == [(1, "r", None, copied)]


def test_many_rows(con: Connection) -> None:
    """Of many rows the first hundred are listed, and how many there are."""
    con.execute(
        "CREATE TABLE feed (k BIGINT);"
        "CREATE MATERIALIZED VIEW counts AS SELECT k % 2 AS k, count(*) AS n FROM feed GROUP BY 1;"
        "INSERT INTO feed SELECT id FROM range(1000)"
    )
    lines = con.execute("WHY counts WHERE k = 1").fetchall()
    assert len(lines) == 101
    assert {line[7] for line in lines[1:]} == {500}


def test_why_not(con: Connection, warehouse: Any) -> None:
    """The operator that lost a row is told with its place, and what to ask below it."""
    con.execute(MADE)

    def told(text: str) -> list[tuple[Any, ...]]:
        """Operator, place, verdict, row and note of the lines that are to blame."""
        lines = con.execute(text).fetchall()
        return [
            (operator, place, verdict, row, note)
            for _, operator, place, _, verdict, row, note in lines
            if verdict not in ("passes", "lost below")
        ]

    (line,) = told("WHY NOT by_country WHERE country = 'FR' AND n = 7")
    assert line[0].startswith("Group by country: count(")
    assert line[2:] == ("has other values here", '{"country":"FR","count":2,"sum":55.0}', None)
    assert told("WHY NOT by_country WHERE country = 'DE'")[0][2] == "lost here"
    assert told("WHY NOT by_country WHERE country = 'US'")[0][:3] == (
        "Scan people",
        None,
        "never there",
    )
    whole = "over all that the inputs hold, of which each run saw a part"
    delete, insert = told("WHY NOT big WHERE id = 1 AND who = 'bob'")
    assert delete[4] == "may take rows away; it is not searched"
    assert (insert[0], insert[2], insert[4]) == ("Scan orders", "never there", whole)
    con.execute("INSERT INTO orders VALUES (9, 'cy', 4)")
    _, insert = told("WHY NOT big WHERE id = 9")
    assert insert == (
        "Filter amount > 10",
        "line 3, column 67",
        "lost here",
        '{"id":9,"who":"cy","amount":4.0}',
        whole,
    )
    (line,) = told("WHY NOT total WHERE n = 99")
    assert line[2] == "has other values here"
    (line,) = told("WHY NOT by_country WHERE country = 'FR'")
    assert line[2:] == (
        "is there",
        '{"country":"FR","n":2,"amount":55.0}',
        "what such rows come from: ask WHY",
    )
    assert told("WHY NOT plain WHERE id = 77")[0][2] == "never there"
    for text, condition in {
        "WHY NOT orders WHERE id = 1": "NOT_SUPPORTED",
        "WHY NOT big WHERE id IN (SELECT id FROM orders)": "NOT_SUPPORTED",
        "WHY NOT big WHERE nothing = 1": "UNKNOWN_COLUMN",
    }.items():
        expect_error(con, text, condition)
