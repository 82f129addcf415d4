"""Which columns a definition names: too many may be told, never too few."""

import pytest

from ctsql.planner.syntax.tokens.tokenizer import named_columns

COLUMNS = ("k", "v", "odd name")
CASES = [
    ("SELECT k FROM t", ("k",)),
    ("SELECT t.K + 1 AS x FROM t WHERE V > 2", ("k", "v")),
    ("SELECT `odd name` FROM t -- v", ("odd name",)),
    ("SELECT 'v' AS x FROM t", ()),
    ("SELECT count(*) FROM t", ()),
    ("SELECT 2 * k FROM t", ("k",)),
    ("SELECT * FROM t", COLUMNS),
    ("SELECT t.* FROM t", COLUMNS),
    ("SELECT 1 AS x, * EXCEPT (v) FROM t", COLUMNS),
    ("SELECT DISTINCT * FROM t", COLUMNS),
    ("SELECT to_json(struct(*)) FROM t", COLUMNS),
    ("SELECT 1 FROM t NATURAL JOIN u", COLUMNS),
    ("SELECT 1 FROM t JOIN u USING (k)", ("k",)),
    ("MERGE INTO o USING t ON o.k = t.k WHEN MATCHED THEN UPDATE SET *", COLUMNS),
    ("MERGE INTO o USING t ON o.k = t.k WHEN NOT MATCHED THEN INSERT *", COLUMNS),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_columns_that_are_named(text: str, expected: tuple[str, ...]) -> None:
    assert named_columns(text, COLUMNS) == expected
