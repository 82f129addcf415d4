"""A name is typed as ``quote`` spells it: what SHOW CREATE, dump and hints say can be run."""

import pytest

from ctsql.catalog.names import quote
from ctsql.catalog.spans import Source
from ctsql.planner.syntax import ast as st, parse, split
from ctsql.planner.syntax.tokens.tokenizer import word_set

WORDS = word_set("""
    add after all alter and as at begin between by cascade case check cluster collate column comment
    commit constraint contents continual copy create cross current current_date day default delete
    describe distinct div drop else end escape every except execute exists expect explain extended
    fail false fetch filter first flow following for foreign format from full function grant group
    having if ignore ilike in inner input insert inserts int intersect interval into is join key
    last lateral left like limit location map match matched materialized merge minus month natural
    not null nulls of offset on once only or order outer over overwrite partition pivot plan primary
    purge qualify quarantine range references refresh rename replace replay reset resume retry right
    rlike rollback row rows schema select semi set show skip snapshot some sort start stream
    streaming struct subscribe suspend table tablesample task test then time timestamp to true
    truncate type undrop union unique unpivot update use user using values verify view watermark
    when where why window with within year zone
""")
STATEMENTS = [
    "CREATE TABLE {} (a int, {} int NOT NULL COMMENT 'x', CONSTRAINT {} NOT NULL ({}))",
    "CREATE TABLE t ({} int, CONSTRAINT c CHECK ({} > 0))",
    "CREATE VIEW {} AS SELECT {}.{} AS {} FROM default.{} WHERE {} = 1",
    "CREATE CONTINUAL TASK u (a int) ON INPUT {} AS (INSERT INTO u SELECT {} FROM {})",
    "INSERT INTO {} ({}) VALUES (1)",
    "UPDATE {} SET {} = 1 WHERE {} = 2",
    "DELETE FROM {} WHERE {} = 2",
    "MERGE INTO {} USING s ON {}.a = s.a WHEN MATCHED THEN UPDATE SET {} = 1",
    "ALTER TABLE {} ADD COLUMN {} int",
    "ALTER TABLE {} RENAME COLUMN {} TO {}",
    "ALTER TABLE {} DROP COLUMN {}",
    "COMMENT ON COLUMN default.{}.{} IS 'x'",
    "DROP TABLE {} CASCADE",
    "SHOW CREATE TABLE {}",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_quoted_name_is_a_name(statement: str) -> None:
    """Whatever word it is, it is read as one, in one statement."""
    for word in WORDS:
        text = statement.replace("{}", quote(word))
        (span,) = split(Source(text, "<test>"))
        made = parse(span)
        target = getattr(made, "target", None)
        if isinstance(target, st.RelationRef):
            assert target.parts[-1] in (word, "t", "u"), text
        if isinstance(made, st.CreateTable):
            assert word in [c.name for c in made.columns], text
