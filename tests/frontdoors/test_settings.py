"""Settings of Spark's on which it depends what rows mean stay as ctsql has set them."""

from typing import Any
from unittest.mock import Mock

import pytest

from ctsql.catalog.errors import CtsqlError, NotSupported
from ctsql.catalog.spans import Source
from ctsql.connection.settings import Settings
from ctsql.planner.syntax import parse
from ctsql.shell.commands import parse_switch


def _reset(text: str) -> Mock:
    session = Mock()
    statement: Any = parse(Source(text).whole())
    Settings().reset(statement, session)
    return session


FIXED = [
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.jsonGenerator.ignoreNullFields",
    "SPARK.SQL.LEGACY.sizeOfNull",
    "spark.sql.files.ignoreMissingFiles",
    "spark.databricks.delta.schema.autoMerge.enabled",
    "spark.databricks.delta.stats.collect",
]


def test_reset_of_others() -> None:
    """Spark's own value again, or the engine's: tables made later are as those before."""
    session = _reset("RESET spark.sql.shuffle.partitions")
    session.conf.unset.assert_called_once_with("spark.sql.shuffle.partitions")
    name = "spark.databricks.delta.properties.defaults.enableInCommitTimestamps"
    _reset(f"RESET {name}").conf.set.assert_called_once_with(name, "true")


@pytest.mark.parametrize("name", FIXED)
def test_what_changes_results_is_neither_set_nor_reset(name: str) -> None:
    """Rows that a task writes would depend on who ran it; reset, on the machine's time zone."""
    assert not _reset(f"RESET {name}").conf.unset.called
    session = Mock()
    statement: Any = parse(Source(f"SET {name} = 'false'").whole())
    with pytest.raises(NotSupported) as raised:
        Settings().set(statement, session)
    assert raised.value.hint or "errors in the data" in str(raised.value.detail)
    assert not session.conf.set.called


@pytest.mark.parametrize(
    ("words", "wanted"),
    [(("true", "on", "YES", "1"), True), (("false", "Off", "no", "0"), False)],
)
def test_the_words_for_on_and_off_are_the_same_everywhere(words: list[str], wanted: bool) -> None:
    """In SET, in commands of the shell and in options of files."""
    for word in words:
        settings = Settings(read_only=wanted)
        statement: Any = parse(Source(f"SET read_only = {word}").whole())
        settings.set(statement, Mock())
        assert settings.read_only is wanted
        assert settings.show(parse(Source("SHOW read_only").whole()), Mock())[0][1] == (  # type: ignore[arg-type]
            "true" if wanted else "false"
        )
        assert parse_switch(not wanted, word) is wanted
        copied: Any = parse(Source(f"COPY t FROM 'x.csv' (HEADER {word})").whole())
        assert dict(copied.file.options) == {"header": "true" if wanted else "false"}


def test_other_words_are_refused() -> None:
    for value in ("maybe", "''"):
        statement: Any = parse(Source(f"SET read_only = {value}").whole())
        with pytest.raises(CtsqlError, match="INVALID_OPTION"):
            Settings().set(statement, Mock())
