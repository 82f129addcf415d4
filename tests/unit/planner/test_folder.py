"""A folder of SQL: definitions in order of what they read, and what is refused."""

import random

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.names import Name
from ctsql.catalog.spans import Source
from ctsql.planner.folder import Folder, read_folder
from ctsql.planner.syntax import ast as st

PARTS = [
    "CREATE TABLE raw (k INT, v INT)",
    "CREATE VIEW big AS SELECT * FROM raw WHERE v > 1",
    "CREATE MATERIALIZED VIEW sums AS WITH c AS (SELECT * FROM big) SELECT k, sum(v) s FROM c "
    "GROUP BY k",
    "CREATE CONTINUAL TASK log (k INT) ON INPUT raw AS r AS "
    "(INSERT INTO log SELECT k FROM r WHERE k NOT IN (SELECT k FROM log) "
    "AND k IN (SELECT k FROM sums))",
    "CREATE FLOW f AS AUTO CDC INTO dim FROM raw KEYS (k) SEQUENCE BY v",
    "CREATE MATERIALIZED VIEW last AS SELECT * FROM dim, log, elsewhere.t",
]


def _read(*texts: str, **options: object) -> Folder:
    sources = [Source(text, f"{n}.sql") for n, text in enumerate(texts, start=1)]
    return read_folder(sources, **options)  # type: ignore[arg-type]


def _names(folder: Folder) -> list[str]:
    return [str(d.name) for d in folder.definitions]


def test_order_follows_reading() -> None:
    """Whatever the order of statements and files, each definition comes after what it reads."""
    for seed in range(20):
        parts = random.Random(seed).sample(PARTS, len(PARTS))
        cut = seed % len(PARTS)
        folder = _read(";\n".join(parts[:cut]), ";\n".join(parts[cut:]))
        names = _names(folder)
        assert sorted(names) == ["big", "f", "last", "log", "raw", "sums"]
        for made in folder.definitions:
            for read in made.reads:
                maker = folder.find(read)
                assert maker is None or names.index(str(maker.name)) < names.index(str(made.name))


def test_reads_are_names_of_relations() -> None:
    """Own names, aliases and common table expressions are no relations; a target is its flow's."""
    folder = _read(";".join(PARTS))
    reads = {str(d.name): [str(n) for n in d.reads] for d in folder.definitions}
    assert reads == {
        "raw": [],
        "big": ["raw"],
        "sums": ["big"],
        "log": ["raw", "sums"],
        "f": ["raw"],
        "last": ["dim", "log", "elsewhere.t"],
    }
    flow = folder.find(Name("default", "dim"))
    assert flow is not None
    assert (flow.keyword, str(flow.name)) == ("FLOW", "f")
    assert [str(d.name) for d in folder.closure([Name("default", "log")])] == [
        "raw", "big", "sums", "log",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "CREATE CONTINUAL TASK x (k INT CHECK (k > 0) ON VIOLATION QUARANTINE) ON INPUT raw AS "
        "(INSERT INTO x SELECT k FROM raw)",
        "CREATE CONTINUAL TASK x OUTPUTS (a (k INT), b (k INT NOT NULL ON VIOLATION QUARANTINE)) "
        "ON INPUT raw AS (INSERT INTO a SELECT k FROM raw)",
        "CREATE CONTINUAL TASK x (k INT) ON INPUT raw WITH (ON ERROR = 'quarantine') AS "
        "(INSERT INTO x SELECT k FROM raw)",
        "CREATE MATERIALIZED VIEW x (k CHECK (k > 0) ON VIOLATION QUARANTINE) AS SELECT k FROM raw",
    ],
)
def test_what_reads_a_quarantine_comes_after_its_owner(text: str) -> None:
    """A quarantine is made by the definition that has it; without one there is none."""
    view = "CREATE VIEW bad AS SELECT * FROM x_quarantine"
    assert _names(_read(view, text)) == ["x", "bad"]
    assert _read(text).find(Name("default", "x_quarantine")) is not None
    without = text.replace("VIOLATION QUARANTINE", "VIOLATION DROP").replace(
        "'quarantine'", "'skip'"
    )
    assert _read(without).find(Name("default", "x_quarantine")) is None


def test_use_holds_to_the_end_of_its_file() -> None:
    """USE qualifies what follows in the file, and nothing in the next one."""
    folder = _read(
        "CREATE SCHEMA s; CREATE TABLE a (k INT); USE s; CREATE VIEW b AS SELECT * FROM default.a",
        "CREATE VIEW c AS SELECT * FROM s.b; COMMENT ON VIEW s.b IS 'x'; COMMENT ON COLUMN s.b.k "
        "IS 'y'",
    )
    assert _names(folder) == ["a", "s.b", "c"]
    assert [s.name for s in folder.schemas] == ["s"]
    assert [len(d.comments) for d in folder.definitions] == [0, 2, 0]


def test_other_statements_are_taken_where_asked_for() -> None:
    """The caller names what it takes besides definitions; tests may stand there anyway."""
    folder = _read("CREATE TABLE a (k INT); SHOW TABLES", also=[st.Show])
    assert [type(o.statement) for o in folder.others] == [st.Show]
    tested = "CREATE TABLE t (n INT); TEST 'a' EXPECT NO ROWS IN t;"
    assert _read(tested).others == ()
    assert len(_read(tested, also=(st.Test,)).others) == 1


@pytest.mark.parametrize(
    ("texts", "condition", "message"),
    [
        (("CREATE TABLE a (k INT)", "\nCREATE VIEW A AS SELECT 1"), "DEFINED_TWICE", "1.sql:1:14"),
        (("CREATE SCHEMA s; CREATE SCHEMA S",), "DEFINED_TWICE", "1.sql:1:15"),
        (
            (PARTS[0], PARTS[4], "CREATE TABLE dim (k INT)"),
            "DEFINED_TWICE",
            "2.sql:1:13",
        ),
        (
            ("CREATE VIEW a AS SELECT * FROM b", "CREATE VIEW b AS SELECT * FROM a"),
            "RECURSIVE_DEFINITION",
            '(2.sql:1:13) reads "',
        ),
        (("CREATE VIEW a AS SELECT * FROM a",), "RECURSIVE_DEFINITION", "1.sql:1:13"),
        (("INSERT INTO t VALUES (1)",), "NOT_A_DEFINITION", "Rows are not definitions."),
        (("DROP TABLE t",), "NOT_A_DEFINITION", "--prune"),
        (("ALTER TABLE t RENAME TO u",), "NOT_A_DEFINITION", "CREATE statement"),
        (("SELECT 1",), "NOT_A_DEFINITION", "CREATE TABLE, VIEW"),
        (("COMMENT ON TABLE t IS 'x'",), "UNKNOWN_RELATION", "that the folder defines"),
        (("CREATE VIEW a AS SELECT (",), "SYNTAX_ERROR", ""),
    ],
)
def test_refused(texts: tuple[str, ...], condition: str, message: str) -> None:
    """A folder that is no state is refused, with the places."""
    with pytest.raises(CtsqlError, match=condition) as caught:
        _read(*texts)
    assert message in f"{caught.value.detail} {caught.value.hint}"
    assert caught.value.span is not None
