"""The end of Spark in the middle of a statement is told as what it is."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

import ctsql
from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.spark.failures.errors import is_lost
from ctsql.runtime.spark.internals import sessions


def _connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: SimpleNamespace
) -> ctsql.Connection:
    """A connection whose session has this context."""
    engine = SimpleNamespace(
        session=SimpleNamespace(sparkContext=context),
        read_only=True,
        gateway=SimpleNamespace(cancel=lambda _: None),
    )
    con = ctsql.connect(str(tmp_path / "warehouse"))
    monkeypatch.setattr(con, "_opened", lambda: engine)
    monkeypatch.setattr(sessions, "active", lambda _: nullcontext())
    return con


CALLS = dict.fromkeys(("setJobGroup", "setLocalProperty"), lambda *_, **__: None)


@pytest.mark.parametrize("step", ["setJobGroup", "setLocalProperty", "stop"])
def test_spark_is_gone_when_a_statement_begins_or_ends(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its context is the first and the last thing that a statement asks; a stop empties it."""

    def refused(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("Connection refused")

    context = SimpleNamespace(**{**CALLS, step: refused}, _jsc=step != "stop" or None)
    con = _connected(tmp_path, monkeypatch, context)
    told = pytest.raises(CtsqlError, match="the connection to Spark was lost")
    with told as caught, con._running("a statement"):
        pass
    assert is_lost(caught.value)


@pytest.mark.parametrize("is_running", [False, True])
def test_cancel_ends_one_statement(
    is_running: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked of the connection after that runs, a question about objects included."""
    con = _connected(tmp_path, monkeypatch, SimpleNamespace(**CALLS, _jsc=True))
    if not is_running:
        con.cancel()
    with pytest.raises(CtsqlError, match="STATEMENT_CANCELLED"), con._running("a statement"):  # noqa: PT012
        con.cancel()
        raise error("STATEMENT_CANCELLED")
    with con._running("another one"):
        pass
