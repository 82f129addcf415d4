"""Settings of Spark's on which it depends what rows mean stay as ctsql has set them."""

from typing import Any
from unittest.mock import Mock

import pytest

from ctsql.catalog.spans import Source
from ctsql.planner.syntax import parse
from ctsql.settings import Settings


def _reset(text: str) -> Mock:
    session = Mock()
    statement: Any = parse(Source(text).whole())
    Settings().reset(statement, session)
    return session


@pytest.mark.parametrize("name", ["spark.sql.session.timeZone", "spark.sql.ansi.enabled"])
def test_reset_leaves_what_is_fixed(name: str) -> None:
    """Without a value Spark would take the machine's time zone."""
    assert not _reset(f"RESET {name}").conf.unset.called


def test_reset_of_another() -> None:
    """It is Spark's own again."""
    session = _reset("RESET spark.sql.shuffle.partitions")
    session.conf.unset.assert_called_once_with("spark.sql.shuffle.partitions")
