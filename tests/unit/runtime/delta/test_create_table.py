"""A table of the engine's own that another writer makes at the same moment is there; no error."""

from types import SimpleNamespace

import pytest
from delta.exceptions import captured

from ctsql.runtime.delta.table import Gateway


class _MadeByAnother(captured.ProtocolChangedException):
    """What Delta says, made without a JVM."""

    def __init__(self) -> None: ...

    def __str__(self) -> str:
        return "made by another writer"


def _gateway(*, is_made: bool) -> SimpleNamespace:
    """One whose CREATE TABLE comes second, or fails on a folder without a log."""

    def sql(_: str) -> None:
        raise _MadeByAnother

    return SimpleNamespace(session=SimpleNamespace(sql=sql), exists=lambda _: is_made)


def test_made_at_the_same_moment() -> None:
    """Delta refuses the later CREATE TABLE; the table is there all the same."""
    Gateway.create_table(_gateway(is_made=True), "file:/w/cursors", "unused STRING", {})  # type: ignore[arg-type]


def test_not_made() -> None:
    """Where there is no table after it, the error is raised."""
    with pytest.raises(captured.ProtocolChangedException):
        Gateway.create_table(_gateway(is_made=False), "file:/w/cursors", "unused STRING", {})  # type: ignore[arg-type]
