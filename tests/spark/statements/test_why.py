"""WHY follows rows through views down to the rows of tables and of tasks."""

from typing import Any

from ctsql.api import Connection, connect
from tests.conftest import TEST_MASTER

MADE = """
CREATE TABLE orders (id INT, who STRING, amount DOUBLE);
CREATE TABLE people (name STRING, country STRING);
CREATE CONTINUAL TASK big (id INT, who STRING, amount DECIMAL(10,1)) ON INPUT orders AS (
    DELETE FROM big WHERE id IN (SELECT id FROM orders);
    INSERT INTO big SELECT id, who, max(amount) FROM orders WHERE amount > 10 GROUP BY id, who;
);
CREATE MATERIALIZED VIEW by_country AS
    SELECT country, count(*) AS n, sum(amount) AS amount FROM big JOIN people ON who = name
    GROUP BY country;
CREATE MATERIALIZED VIEW countries AS SELECT count(*) AS countries FROM by_country;
CREATE VIEW plain AS SELECT id FROM orders;
INSERT INTO people VALUES ('ann', 'FR'), ('bob', 'FR'), ('cy', 'DE');
INSERT INTO orders VALUES (1, 'ann', 20), (1, 'ann', 15), (2, 'bob', 30), (3, 'cy', 5);
SELECT * FROM by_country;
UPDATE orders SET amount = 25 WHERE id = 1 AND amount = 15;
DELETE FROM orders WHERE id = 3;
SELECT * FROM by_country;
"""
OF_TASK = "computed by a task from its inputs' changes at this T; continue with BLAME"


def _why(con: Connection, text: str) -> list[tuple[Any, ...]]:
    """Level, object, row and note of each line."""
    result = con.execute(text)
    assert result.columns[:2] == ["level", "object"]
    return [(line[0], line[1], line[6], line[8]) for line in result.fetchall()]


def test_views(con: Connection, warehouse: Any) -> None:
    """Each level is exact, copies are listed once, and the answer ends at tables and tasks."""
    con.execute(MADE)
    big = [
        (1, "big", '{"id":2,"who":"bob","amount":30.0}', OF_TASK),
        (1, "big", '{"id":1,"who":"ann","amount":25.0}', OF_TASK),
    ]
    found = _why(con, "WHY by_country WHERE country = 'FR'")
    assert found[0] == (0, "by_country", '{"country":"FR","n":2,"amount":55.0}', None)
    assert [line for line in found if line[1] == "big"] == big
    people = [line[2] for line in found if line[1] == "people"]
    assert people == ['{"name":"ann","country":"FR"}', '{"name":"bob","country":"FR"}']
    assert {line[1] for line in found} == {"by_country", "big", "people"}
    below = _why(con, "WHY countries WHERE true")
    assert [line[:2] for line in below[:2]] == [(0, "countries"), (1, "by_country")]
    assert [(2, *line[1:]) for line in found[1:]] == below[2:]
    con.execute("MAINTAIN ALL")
    with connect(str(warehouse), master=TEST_MASTER, read_only=True) as reader:
        assert _why(reader, "WHY by_country WHERE country = 'FR'") == found
    assert _why(con, "WHY plain WHERE id = 2") == [
        (0, "plain", '{"id":2}', None),
        (1, "orders", '{"id":2,"who":"bob","amount":30.0}', None),
    ]
    assert _why(con, "WHY by_country WHERE country = 'IT'") == []
    ((_, name, t, *_, note),) = con.execute("WHY big WHERE id = 2").fetchall()
    assert (name, note) == ("big", OF_TASK)
    blame = con.execute("BLAME orders WHERE id = 2").fetchall()
    assert [row[0] for row in blame] == [t], "WHY names the T at which BLAME goes on"


def test_what_cannot_be_told(con: Connection) -> None:
    """A line says what cannot be told; nothing is guessed."""
    con.execute(
        "CREATE TABLE feed (k INT, v DOUBLE); CREATE TABLE known (v CHAR(4));"
        "INSERT INTO known VALUES ('ab');"
        "CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS v FROM feed GROUP BY k;"
        "CREATE MATERIALIZED VIEW short AS SELECT count(*) AS n FROM known WHERE v = 'ab';"
        "INSERT INTO feed VALUES (1, 0.1), (1, 0.2), (NULL, double('NaN'))"
    )
    found = _why(con, "WHY sums WHERE k IS NULL")
    assert found[1:] == [
        (1, "feed", '{"k":null,"v":"NaN"}', "v is not compared, as it depends on the order of rows")
    ]
    untold = (1, "short", None, "cannot be determined: Spark may read this query differently")
    assert _why(con, "WHY short WHERE n = 1")[1:] == [untold]


def test_subqueries_in_the_condition_of_a_join(con: Connection) -> None:
    """Of joins that DuckDB does not run, so that test_lineage leaves them out."""
    con.execute(
        "CREATE TABLE a (k INT, v INT); CREATE TABLE b (k INT, w INT);"
        "CREATE TABLE c (k INT, x INT);"
        "INSERT INTO a VALUES (1, 10), (2, 20), (3, 30); INSERT INTO b VALUES (1, 1), (2, 2);"
        "INSERT INTO c VALUES (1, 10), (1, 11), (3, 30)"
    )
    joins = {
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
