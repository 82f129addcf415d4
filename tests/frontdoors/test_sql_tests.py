"""TEST statements that must pass do, those that must fail do, and say what and where."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from ctsql.testing.command import choose, run_tests
from ctsql.testing.reporting import failure_lines, junit, outcome_lines, summary
from ctsql.testing.running import Outcome
from tests.conftest import TEST_MASTER

FOLDER = {
    "views.sql": """
        CREATE MATERIALIZED VIEW recent AS SELECT id FROM seen WHERE at > now() - INTERVAL 1 HOUR;
        CREATE TABLE seen (id INT, at TIMESTAMP);
        CREATE CONTINUAL TASK stamped (id INT, at TIMESTAMP) ON INPUT seen AS (
            INSERT INTO stamped SELECT id, now() FROM seen
        );
        CREATE MATERIALIZED VIEW daily WITH (REFRESH EVERY '1 day' ALIGNED TO '2026-01-01')
            AS SELECT count(*) AS n FROM seen;
        TEST 'ok: the clock is the test''s'
            GIVEN AT TIMESTAMP '2026-03-01 12:00:00'
                seen VALUES (1, TIMESTAMP '2026-03-01 11:30:00Z'), (2, now())
            THEN AT TIMESTAMP '2026-03-01 12:31:00'
            THEN AT TIMESTAMP '2026-03-02 00:00:00'
            EXPECT recent AFTER 1 VALUES (1), (2)
            EXPECT recent AFTER 2 VALUES (2)
            EXPECT NO ROWS IN recent
            EXPECT stamped VALUES (1, TIMESTAMP '2026-03-01 12:00:00Z'), (2, '2026-03-01 12:00:00Z')
            EXPECT NO CHANGE IN stamped AFTER 2
            EXPECT daily AFTER 2 VALUES (0)
            EXPECT daily VALUES (2);
    """,
    "types.sql": """
        CREATE TABLE types (
            i INT NOT NULL, s STRING, d DOUBLE, n DECIMAL(10, 2), m MAP<STRING, INT>,
            r STRUCT<x: INT, y: STRING>, v VARIANT, c CHAR(4)
        );
        CREATE TABLE wide (b BIGINT, d DATE, n DECIMAL(38, 10));
        TEST 'ok: spellings of one number, and of one day'
            GIVEN wide VALUES (9007199254740993, DATE '2024-03-31', 0.5), (-1000, NULL, -0.0)
            EXPECT wide VALUES (9007199254740993.0, '2024-03-31', '.50'),
                (-1e3, NULL, '000.000')
            EXPECT wide (b, d) AS (SELECT 9007199254740993BD, TIMESTAMP '2024-03-31 00:00:00'
                UNION ALL SELECT -1000, NULL);
        TEST 'fails: 9007199254740993.4 is no bigint'
            GIVEN wide (b) VALUES (9007199254740993) EXPECT wide (b) VALUES (9007199254740993.4);
        TEST 'fails: is no decimal(38,10)' GIVEN wide (n) VALUES (1234567890123456789.5)
            EXPECT wide (n) VALUES ('1234567890123456789.50000000001');
        TEST 'fails: 2024-03-31 10:00:00 is no date' GIVEN wide (d) VALUES (DATE '2024-03-31')
            EXPECT wide (d) VALUES (TIMESTAMP '2024-03-31 10:00:00');
        TEST 'fails: 2024-03-31 10:00 is no date' GIVEN wide (d) VALUES (DATE '2024-03-31')
            EXPECT wide (d) VALUES ('2024-03-31 10:00');
        TEST 'fails: 2024-03-31 00:00:01 is no date'
            GIVEN wide (d) VALUES (DATE '2024-03-31')
            EXPECT wide (d) AS (SELECT TIMESTAMP '2024-03-31 00:00:01');
        TEST 'ok: values become those of the columns'
            GIVEN types VALUES
                (1, 'a', 0.1, 1.5, map('k', 1, 'l', NULL), named_struct('x', 1, 'y', 'z'),
                 parse_json('{"a": 1}'), 'ab'),
                (2, NULL, double('NaN'), NULL, NULL, NULL, NULL, NULL)
            EXPECT types VALUES
                (2, NULL, 'NaN', NULL, NULL, NULL, NULL, NULL),
                (1, 'a', 0.1, 1.50, map('l', NULL, 'k', 1), named_struct('x', '1', 'y', 'z'),
                 parse_json('{ "a":1}'), 'ab')
            EXPECT (SELECT i, c FROM types ORDER BY i DESC) VALUES (2, NULL), (1, 'ab')
            EXPECT (SELECT i FROM types) AS (SELECT id + 1 FROM range(2));
        TEST 'ok: a step that is refused'
            GIVEN types (i) VALUES (NULL) THEN types (i) VALUES (2)
            EXPECT ERROR DATA_ERROR LIKE '%NOT NULL%' AFTER 1
            EXPECT types (i) VALUES (2);
        TEST 'fails: - (1, ''NULL'')' GIVEN types (i) VALUES (1)
            EXPECT types (i, s) VALUES (1, 'NULL');
        TEST 'fails: {"a":2}' GIVEN types (i, v) VALUES (1, parse_json('{"a": 1}'))
            EXPECT types (v) VALUES (parse_json('{"a": 2}'));
        TEST 'fails: -0.0' GIVEN types (i, d) VALUES (1, -0.0D) EXPECT types (d) VALUES (0.0);
        TEST 'fails: (+ not expected: 1 row)' GIVEN types (i) VALUES (1), (1)
            EXPECT types (i) VALUES (1);
        TEST 'fails: 1.5 is no int' GIVEN types (i) VALUES (1) EXPECT types (i) VALUES (1.5);
        TEST 'fails: COLUMN_COUNT_MISMATCH' GIVEN types (i) VALUES (1)
            EXPECT types (i, s) VALUES (1);
        TEST 'fails: step 1 is refused' GIVEN types (i) VALUES (NULL) EXPECT NO ROWS IN types;
        TEST 'fails: no step is refused' GIVEN types (i) VALUES (1) EXPECT ERROR DATA_ERROR;
        TEST 'fails: in another order' GIVEN types (i) VALUES (2), (1)
            EXPECT (SELECT i FROM types ORDER BY i DESC) VALUES (1), (2);
        TEST 'fails: UNKNOWN_COLUMN' GIVEN types (i) VALUES (1) EXPECT types (j) VALUES (1);
        TEST 'fails: 12000' GIVEN types (i) AS (SELECT id FROM range(10001))
            EXPECT types (i) AS (SELECT if(id = 0, 12000, id) FROM range(10001));
    """,
    "nested.sql": """
        CREATE TABLE nested (
            a ARRAY<INT>, m MAP<DATE, ARRAY<DECIMAL(5, 2)>>,
            r ARRAY<STRUCT<`select`: INT, s: STRING>>
        );
        TEST 'ok: spellings within values'
            GIVEN nested VALUES
                (array(1, NULL), map(DATE '2026-03-01', array(1.5, 2)),
                 array(named_struct('select', 1, 's', '1.40'), NULL)),
                (NULL, map(DATE '2026-03-02', NULL), array()), (array(), NULL, NULL)
            EXPECT nested VALUES
                (array(1.0, NULL), map('2026-03-01', array(1.50, 2.0)),
                 array(struct(1.0, '1.40'), NULL)),
                (NULL, map(TIMESTAMP '2026-03-02 00:00:00', NULL), array()), (array(), NULL, NULL)
            EXPECT nested (a) AS (
                SELECT array(1.0, NULL) UNION ALL SELECT NULL UNION ALL SELECT array());
        TEST 'fails: [1.4] is no array<int>' GIVEN nested (a) VALUES (array(1))
            EXPECT nested (a) VALUES (array(1.4));
        TEST 'fails: [1.0, 1.4] is no array<int>' GIVEN nested (a) VALUES (array(1, 1))
            EXPECT nested (a) AS (SELECT array(1, 1.4));
        TEST 'fails: {2026-03-01 10:00:00 -> [1]} is no map<date'
            GIVEN nested (m) VALUES (map(DATE '2026-03-01', array(1)))
            EXPECT nested (m) VALUES (map(TIMESTAMP '2026-03-01 10:00:00', array(1)));
        TEST 'fails: {2026-03-01 -> [1.505]} is no map<date'
            GIVEN nested (m) VALUES (map(DATE '2026-03-01', array(1.51)))
            EXPECT nested (m) VALUES (map('2026-03-01', array(1.505)));
        TEST 'fails: [{1.4, x}] is no array<struct'
            GIVEN nested (r) VALUES (array(named_struct('select', 1, 's', 'x')))
            EXPECT nested (r) VALUES (array(struct(1.4, 'x')));
    """,
    "sub/tasks.sql": """
        CREATE TABLE nums (n INT);
        CREATE CONTINUAL TASK tens (n INT) ON INPUT nums AS (
            INSERT INTO tens SELECT 10 DIV n FROM nums
        );
        CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS s FROM tens;
        CREATE VIEW `odd name` AS SELECT n AS `odd column` FROM nums;
        CREATE TABLE other (n INT);
        TEST 'ok: errors in a body'
            GIVEN nums VALUES (5) THEN nums VALUES (0) THEN nums VALUES (1)
            EXPECT tens AFTER 1 VALUES (2)
            EXPECT ERROR TASK_FAILED LIKE '%by zero%' IN tens AFTER 2
            EXPECT ERROR TASK_FAILED IN total
            EXPECT NO ROWS IN tens AFTER 0;
        TEST 'ok: a table stands for a task'
            GIVEN tens VALUES (1), (2) THEN UPDATE tens SET n = 5 WHERE n = 2
            EXPECT total AFTER 1 VALUES (3) EXPECT total VALUES (6);
        TEST 'ok: one commit of two tables'
            GIVEN nums VALUES (5), (5) AND other VALUES (7)
            THEN DELETE FROM nums AND UPDATE other SET n = 8
            EXPECT other AFTER 1 VALUES (7) EXPECT other VALUES (8)
            EXPECT NO ROWS IN nums EXPECT tens VALUES (2), (2)
            EXPECT NO CHANGE IN tens AFTER 2;
        TEST 'ok: odd names' GIVEN nums VALUES (1) EXPECT `odd name` (`odd column`) VALUES (1);
        TEST 'fails: step 2 changes tens' GIVEN nums VALUES (1) THEN nums VALUES (1)
            EXPECT NO CHANGE IN tens;
        TEST 'fails: not this error' GIVEN nums VALUES (0) EXPECT ERROR HISTORY_LOST IN tens;
        TEST 'fails: can be read' GIVEN nums VALUES (1) EXPECT ERROR TASK_FAILED IN tens;
        TEST 'fails: cannot be compared' GIVEN nums VALUES (0) EXPECT tens VALUES (1);
        CREATE SCHEMA shop; USE shop;
        CREATE TABLE nums (n BIGINT);
        CREATE VIEW both AS SELECT a.n FROM nums a JOIN default.nums b ON a.n = b.n;
        TEST 'ok: schemas' GIVEN nums VALUES (1), (2) THEN default.nums VALUES (2)
            EXPECT both VALUES (2) EXPECT default.tens VALUES (5);
        CREATE VIEW wrong AS SELECT m FROM nums;
        TEST 'fails: the test cannot be run' GIVEN nums VALUES (1) EXPECT wrong VALUES (1);
    """,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a pipeline."""
    for name, text in FOLDER.items():
        path = tmp_path / "pipeline" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "pipeline"


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    made = connect(str(tmp_path / "none"), master=TEST_MASTER)
    yield made
    made.close()


@pytest.mark.spark
def test_tests_pass_and_fail_as_they_must(folder: Path, connection: Connection) -> None:
    """A name says what must come of its test: ``ok``, or ``fails`` with a part of what is said."""
    told: list[Outcome] = []
    chosen = choose(folder, None, {})
    outcomes = run_tests(connection, chosen, told.append, workers=2)
    assert told == outcomes
    assert [o.case for o in outcomes] == list(chosen.cases)
    wrong = []
    for outcome in outcomes:
        kind, _, what = outcome.case.test.name.partition(": ")
        said = "\n".join(outcome_lines(outcome))
        if outcome.passed != (kind == "ok") or (kind == "fails" and _found(what) not in said):
            wrong.append(said)
    assert wrong == []
    assert sum(o.passed for o in outcomes) == sum(t.count("TEST 'ok") for t in FOLDER.values())
    assert not Path(connection.warehouse).exists(), "no warehouse may be left"
    failed = next(o for o in outcomes if o.case.test.name == "fails: -0.0")
    place = f"{folder}/types.sql:{failed.case.test.span.line}"
    assert list(failure_lines(failed.failures[0])) == [
        f"{place}:65: types has other rows after step 1, at 2026-01-01T00:00:00.000Z",
        "       d",
        "  -  0.0",
        "  + -0.0",
        "  (- missing: 1 row; + not expected: 1 row)",
    ]
    suite = ET.fromstring(junit(outcomes, 1.5)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("time")) == (str(len(outcomes)), "1.500")
    assert suite.get("failures") == str(sum(not o.passed for o in outcomes))
    assert len(suite.findall("testcase/failure")) == int(suite.get("failures", ""))
    assert re.fullmatch(
        r"\d+ passed, \d+ failed, 3 left out in 1.5 s", summary(outcomes, 1.5, left_out=3)
    )


def _found(what: str) -> str:
    return "- 1 | 'NULL'" if what.startswith("- (1") else what


def test_tests_are_chosen_by_their_names(tmp_path: Path) -> None:
    """Text that cannot be read is an error at its place."""
    file = tmp_path / "a.sql"
    file.write_text(
        "CREATE TABLE t (n INT); TEST 'a' EXPECT NO ROWS IN t; TEST 'bc' EXPECT t AS t;"
    )
    with pytest.raises(CtsqlError, match=r"a\.sql:1:") as unreadable:
        choose(tmp_path, None, {})
    assert unreadable.value.condition == "SYNTAX_ERROR"
    file.write_text(file.read_text().replace("t AS t", "NO ROWS IN t"))
    chosen = choose(tmp_path, "B", {})
    assert ([c.test.name for c in chosen.cases], chosen.left_out) == (["bc"], 1)
    assert [str(d.name) for d in chosen.folder.definitions] == ["t"]
    with pytest.raises(CtsqlError, match="no test"):
        choose(tmp_path, "d", {})
