"""The engine's own words in names, columns, comments, texts and functions of a user's definitions.

An option is what the parser read behind WITH, and nothing that only looks like it.
"""

from ctsql.api import Connection
from ctsql.planner.syntax.parse import DML_VERBS, EXPLAIN_FORMATS
from ctsql.planner.syntax.statements import options
from ctsql.planner.syntax.statements.commands import COMMANDS

WORDS = sorted(
    {
        word.lower()
        for phrase in (
            *options.TASK_OPTIONS,
            *options.VIEW_OPTIONS,
            "CREATE OR REPLACE REPLACEMENT CONTINUAL TASK MATERIALIZED VIEW IF NOT EXISTS",
            "ON INPUT OUTPUTS AS WITH COMMENT WHERE BACKFILL FROM TRANSFORM RETAIN REFRESH",
            *COMMANDS,
            *DML_VERBS,
            *EXPLAIN_FORMATS,
            "INSERTS", "DELETES", "CHANGES", "CONTENTS", "FLOW", "CDC", "KEYS", "SEQUENCE BY",
            "ITERATIONS = FIXPOINT", "ALIGNED TO", "CREATION", "AS OF", "SNAPSHOT", "UP TO NOW",
            "TRIMESTER", "REFRESHED", "COALESCED",
        )
        for word in phrase.split()
        if word.isalpha()
    }
)  # fmt: skip


def quoted(words: list[str]) -> str:
    return ", ".join(f"`{w}`" for w in words)


def use(con: Connection, names: list[str]) -> None:
    """All that a person does with a warehouse; every statement must go on working."""
    con.run(once=True)
    con.execute("SHOW OBJECTS").fetchall()
    con.execute("SHOW CONTINUAL TASKS").fetchall()
    assert {row[3] for row in con.status().fetchall()} <= {"up to date", "finished"}
    for name in names:
        con.execute(f"DESCRIBE EXTENDED {name}").fetchall()
        con.execute(f"SHOW CREATE {name}").fetchall()


def test_words_everywhere(con: Connection) -> None:
    """A table, a view, a materialized view and a task made of nothing but such words."""
    columns = ", ".join(f"`{w}` STRING COMMENT 'it is {w}'" for w in WORDS)
    con.execute(f"CREATE TABLE `trim` ({columns})")
    texts = ", ".join(f"'with (refresh every = {w})' AS `{w}`" for w in WORDS)
    comment = f"/* WITH ({' '.join(WORDS)}) */ -- {' '.join(WORDS)}\n"
    con.execute(f"CREATE VIEW `refresh` AS {comment} SELECT {quoted(WORDS)} FROM `trim`")
    con.execute(
        f"CREATE MATERIALIZED VIEW `coalesce` AS {comment} SELECT {quoted(WORDS)}, "
        "trim(`trim`) AS `trim_every`, coalesce(`refresh`, 'coalesce') AS `at_creation` "
        "FROM `refresh`"
    )
    con.execute(
        f"CREATE CONTINUAL TASK `snapshot` ON INPUT `trim` AS ({comment}"
        f"INSERT INTO `snapshot` SELECT {quoted(WORDS)} FROM `trim` "
        "WHERE trim(`trim`) <> 'trim every' OR coalesce(`coalesce`, 'refresh') = 'iterations')"
    )
    con.execute(f"CREATE TABLE plain AS SELECT {texts}")
    con.execute(f"INSERT INTO `trim` SELECT {quoted(WORDS)} FROM plain")
    row = tuple(f"with (refresh every = {w})" for w in WORDS)
    assert con.execute("SELECT * FROM `snapshot`").fetchall() == [row]
    more = (row[WORDS.index("trim")], row[WORDS.index("refresh")])
    assert con.execute("SELECT * FROM `coalesce`").fetchall() == [(*row, *more)]
    assert con.execute("VERIFY `coalesce`").fetchall() == []
    con.execute("SELECT count(*) FROM plain").fetchall()
    use(con, ["`trim`", "`refresh`", "`coalesce`", "`snapshot`", "plain"])
