"""examples/ingest_kafka.py on a real broker: each message is in the table once."""

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from tests.crash.killed_processes import seed
from tests.helpers.ingesting import kill, run, run_killed, start
from tests.helpers.kafka_broker import CONNECTOR, broker, broker_jars

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(1800)]

EXAMPLE = "ingest_kafka"
JARS = Path(os.environ.get("CTSQL_KAFKA_JARS") or Path.home() / ".cache" / "ctsql-kafka")
KILLS = 3
PARTITIONS = 3
SECONDS_MAX = 300
"""For what a program that follows the topic is to have loaded."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker, and Spark's settings for its connector."""
    made = tmp_path_factory.mktemp("kafka")
    packages = f"spark.jars.packages {':'.join(CONNECTOR)}\n"
    (made / "spark-defaults.conf").write_text(packages)
    with pytest.MonkeyPatch.context() as patched, broker(broker_jars(JARS), made) as found:
        patched.setenv("SPARK_CONF_DIR", str(made))
        yield found


class Topic:
    """A topic of several partitions, and the arguments of a program that loads it."""

    def __init__(self, con: Connection, address: str, place: Path) -> None:
        self.spark, self.address, self.name = con.spark, address, f"t{time.time_ns()}"
        self.checkpoint = place / "checkpoint"
        self.arguments = ("-w", con.warehouse, address, self.name, self.checkpoint)
        jvm: Any = con.spark._jvm
        properties = jvm.java.util.Properties()
        properties.setProperty("bootstrap.servers", address)
        admin, of = jvm.org.apache.kafka.clients.admin, jvm.java.util.Optional
        new = admin.NewTopic(self.name, of.of(PARTITIONS), of.empty())
        client = admin.AdminClient.create(properties)
        client.createTopics(jvm.java.util.List.of(new)).all().get()
        client.close()

    def send(self, ids: range) -> None:
        """Messages, spread over the partitions."""
        rows = [(json.dumps({"id": n, "price": n + 0.5}), n % PARTITIONS) for n in ids]
        frame = self.spark.createDataFrame(rows, "value STRING, partition INT")
        writer = frame.coalesce(1).write.format("kafka").option("topic", self.name)
        writer.option("kafka.bootstrap.servers", self.address).save()


@pytest.fixture
def topic(address: str, con: Connection, tmp_path: Path) -> Topic:
    return Topic(con, address, tmp_path)


def _loaded(con: Connection) -> list[int]:
    return sorted(int(row[0]) for row in con.execute("SELECT id FROM orders").fetchall())


def test_killed_and_without_its_checkpoint(con: Connection, topic: Topic) -> None:
    """Killed after a commit that the checkpoint does not know, and started without a checkpoint."""
    topic.send(range(10))
    run_killed(EXAMPLE, *topic.arguments, fault="source_committed")
    assert _loaded(con) == [*range(10)]
    topic.send(range(10, 15))
    run(EXAMPLE, *topic.arguments)
    assert _loaded(con) == [*range(15)]
    con.execute("DELETE FROM orders WHERE id < 12")
    shutil.rmtree(topic.checkpoint)
    topic.send(range(15, 20))
    run(EXAMPLE, *topic.arguments)
    assert _loaded(con) == [*range(12, 20)], "what was deleted stays deleted"


def test_killed_at_any_moment_beside_inserts(con: Connection, topic: Topic) -> None:
    """Killed again and again while messages and INSERTs come: each is in once."""
    draw = random.Random(seed())
    topic.send(range(3))
    run(EXAMPLE, *topic.arguments)
    sent, inserted = 3, 0
    for _ in range(KILLS):
        process = start(EXAMPLE, *topic.arguments)
        until = time.monotonic() + draw.uniform(5, 40)
        while time.monotonic() < until:
            topic.send(range(sent, sent + 2))
            sent += 2
            inserted += 1
            con.execute(f"INSERT INTO orders VALUES ({-inserted}, 0, NULL, NULL)")
            time.sleep(0.5)
        kill(process)
    process = start(EXAMPLE, *topic.arguments)
    wanted = [*range(-inserted, 0), *range(sent)]
    until = time.monotonic() + SECONDS_MAX
    while (loaded := _loaded(con)) != wanted and time.monotonic() < until:
        time.sleep(0.5)
    kill(process)
    assert loaded == wanted
