"""Every statement has a handler, and what it may is said of each."""

import pytest

from ctsql.connection.dispatch import HANDLERS, May, allowed
from ctsql.planner.syntax import ast as st
from tests.helpers.parsed import parsed

MAY = (
    ("SELECT 1", May.READ_ONLY | May.IN_TRANSACTION | May.ONCE),
    ("COPY (SELECT 1) TO 'f.csv'", May.READ_ONLY | May.IN_TRANSACTION | May.ONCE),
    ("INSERT INTO t VALUES (1)", May.IN_TRANSACTION | May.ONCE),
    ("COPY t FROM 'f.csv'", May.IN_TRANSACTION),
    ("BEGIN", May.READ_ONLY),
    ("COMMIT", May.READ_ONLY | May.IN_TRANSACTION),
    ("SHOW FUNCTIONS", May.READ_ONLY | May.IN_TRANSACTION),
    ("DESCRIBE t", May.READ_ONLY | May.IN_TRANSACTION),
    ("EXPLAIN SELECT 1", May.READ_ONLY | May.IN_TRANSACTION | May.ONCE),
    ("EXPLAIN CREATE VIEW v AS SELECT 1 AS a", May.READ_ONLY | May.IN_TRANSACTION),
    ("BLAME t", May.READ_ONLY | May.ONCE),
    ("SUBSCRIBE TO t", May.READ_ONLY | May.AGAIN),
    ("VERIFY MATERIALIZED VIEW v", May.READ_ONLY),
    ("VERIFY MATERIALIZED VIEW v REPAIR", May.CHANGE),
    ("CREATE TABLE t AS SELECT 1 AS a", May.ONCE),
    ("CREATE VIEW v AS SELECT 1 AS a", May.AGAIN),
    ("DROP TABLE t", May.CHANGE),
)


def test_every_statement_has_a_handler() -> None:
    """A class without one would be an error of Python's; bases of others are no statements."""
    kinds = {
        one
        for one in vars(st).values()
        if isinstance(one, type) and issubclass(one, st.Statement) and not one.__subclasses__()
    }
    assert set(HANDLERS) == kinds


@pytest.mark.parametrize(("text", "may"), MAY, ids=[text for text, _ in MAY])
def test_what_a_statement_may(text: str, may: May) -> None:
    """On a read-only connection, in a transaction, and with the names of its caller."""
    assert allowed(parsed(text)) == may
