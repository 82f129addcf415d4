"""OpenLineage: a run for each commit, with what it is made of; nobody waits for who takes it."""

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.serde import Serde
from openlineage.client.transport import Transport
from openlineage.client.transport.http import HttpConfig, HttpTransport

from ctsql import lineage as events
from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from ctsql.lineage import LineageEvents, lineage_of, run_id
from ctsql.runtime.monitoring.lineage import Field, Lineage, lineage
from ctsql.side_reader import SideReader
from tests.frontdoors.test_tracing import failed, wrote

pytestmark = pytest.mark.spark

OBJECTS = """
CREATE TABLE feed (k INT, v INT);
INSERT INTO feed VALUES (1, 10), (2, 20), (2, 22);
CREATE CONTINUAL TASK latest (k INT, v INT) ON INPUT feed AS (
    DELETE FROM latest WHERE k IN (SELECT k FROM feed);
    INSERT INTO latest SELECT k, max(v) FROM feed GROUP BY k
);
CREATE CONTINUAL TASK sort_feed OUTPUTS (low (k INT, v INT), high (k INT, v INT))
    ON INPUT feed AS (
    INSERT INTO low SELECT k, v FROM feed WHERE v < 20;
    INSERT INTO high SELECT k, v FROM feed WHERE v >= 20
);
CREATE MATERIALIZED VIEW averages AS SELECT k, avg(v) AS a FROM feed GROUP BY k;
CREATE MATERIALIZED VIEW levels AS
    SELECT CAST(a AS INT) DIV 10 AS level, avg(a) AS a FROM averages
    GROUP BY CAST(a AS INT) DIV 10;
CREATE VIEW above AS SELECT k, a FROM averages WHERE a > 15;
CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM feed
"""


class KeepingTransport(Transport):
    """Keeps what is sent, as JSON."""

    kind = "kept"

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, event: Any) -> None:
        """Keep an event."""
        self.events.append(json.loads(Serde.to_json(event)))


@pytest.fixture
def reader(con: Connection) -> SideReader:
    con.execute(OBJECTS)
    return SideReader(connect(con.warehouse, read_only=True))


def _of(reader: SideReader, name: str) -> Lineage:
    found = reader(lambda logs: lineage(logs, name))
    assert found is not None
    return found


def test_what_outputs_are_made_of(reader: SideReader) -> None:
    """Of tasks, each of their outputs, and views over views; plain views hold nothing."""
    latest = _of(reader, "latest")
    feed = latest.inputs[0].location
    assert [i.name for i in latest.inputs] == ["feed"]
    assert latest.inputs[0].columns == (("k", "int"), ("v", "int"))
    k, v = Field(dataset=feed, column="k"), Field(dataset=feed, column="v")
    assert latest.fields == {"k": (k,), "v": (v,)}
    assert latest.reads == (k, v)
    high = _of(reader, "high")
    assert (high.object, high.output.name, high.fields) == ("sort_feed", "high", latest.fields)
    failing = _of(reader, "sort_feed")  # which is what fails
    assert (failing.id, failing.object, failing.output.name) == (high.id, "sort_feed", "low")
    levels = _of(reader, "levels")
    a = Field(dataset=_of(reader, "averages").output.location, column="a")
    assert (levels.kind, levels.fields) == ("MATERIALIZED VIEW", {"level": (a,), "a": (a,)})
    assert _of(reader, "counted").fields == {"n": ()}
    for name in ("feed", "above", "nothing"):
        assert reader(lambda logs, name=name: lineage(logs, name)) is None, name


def test_a_run_begins_and_ends(reader: SideReader) -> None:
    """Both have the inputs; the end has what was written, and the columns it is made of."""
    transport = KeepingTransport()
    made = LineageEvents(
        "w", lambda name: _of(reader, name), OpenLineageClient(transport=transport)
    )
    with made.opened() as noted:
        noted.note(wrote("latest", 1_000, 1_900))
        noted.note(failed("levels", 1_000, 2_000))
    start, complete, again, fail = transport.events
    assert [e["eventType"] for e in transport.events] == ["START", "COMPLETE", "START", "FAIL"]
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["run"]["runId"] == run_id(_of(reader, "latest").id, 1_000)
    assert start["run"]["runId"] != again["run"]["runId"] == fail["run"]["runId"]
    assert start["eventTime"].startswith("1970-01-01T00:00:01.400")
    assert complete["job"]["name"] == "latest"
    assert complete["job"]["facets"]["sql"]["query"].startswith("CREATE CONTINUAL TASK latest")
    (feed,) = complete["inputs"]
    assert feed["facets"]["symlinks"]["identifiers"][0]["name"] == "feed"
    (output,) = complete["outputs"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 4
    columns = output["facets"]["columnLineage"]
    (of_v,) = columns["fields"]["v"]["inputFields"]
    assert (of_v["name"], of_v["field"]) == (feed["name"], "v")
    assert [f["transformations"][0]["type"] for f in columns["dataset"]] == ["INDIRECT"] * 2
    assert fail["run"]["facets"]["errorMessage"]["message"] == "DATA_ERROR: bad"


def test_who_is_not_there_is_told_once_and_not_awaited(
    reader: SideReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes connections and answers nothing: events are dropped, the end is soon."""
    monkeypatch.setattr(events, "END_SECONDS", 1.0)
    monkeypatch.setattr(events, "QUEUE_MAX", 100)
    told: list[str] = []
    latest = _of(reader, "latest")
    with socket.create_server(("127.0.0.1", 0)) as dead:
        config = HttpConfig(url=f"http://127.0.0.1:{dead.getsockname()[1]}", timeout=1)
        client = OpenLineageClient(transport=HttpTransport(config))
        with LineageEvents("w", lambda _: latest, client, told.append).opened() as made:
            begun = time.monotonic()
            for t in range(1_000, 2_000):
                made.note(wrote("latest", t, t + 10))
            noted = time.monotonic() - begun
            ending = time.monotonic()
        ended = time.monotonic() - ending
    assert (noted < 10, ended < 10) == (True, True)
    assert told[0].startswith("lineage: events are dropped")
    assert len(told) <= 2


def test_somebody_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place to send to, the option is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    with connect(str(tmp_path / "w")) as con, pytest.raises(CtsqlError, match="OPENLINEAGE_URL"):
        lineage_of(con, print)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    with connect(str(tmp_path / "w")) as con:
        lineage_of(con, print)
