"""Topics of a real broker: each message comes in once, by partition and offset."""

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.warehouse import watched_topics
from tests.crash.killed_processes import seed
from tests.helpers.kafka_broker import CONNECTOR, broker, broker_jars
from tests.helpers.processes import race, run_killed, start_program
from tests.helpers.table_folder import folder, log, transaction, tree, versions

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(1800)]

JARS = Path(os.environ.get("CTSQL_KAFKA_JARS") or Path.home() / ".cache" / "ctsql-kafka")
KILLS = 5
PARTITIONS = 3
_SERVICE = """
import sys
from ctsql.api import connect
connect(sys.argv[1], master="local[1]").run()
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker, and Spark's settings for its connector."""
    made = tmp_path_factory.mktemp("kafka")
    packages = f"spark.jars.packages {':'.join(CONNECTOR)}\n"
    (made / "spark-defaults.conf").write_text(packages)
    with pytest.MonkeyPatch.context() as patched, broker(broker_jars(JARS), made) as found:
        patched.setenv("SPARK_CONF_DIR", str(made))
        yield found


class Topics:
    """What a test does to the broker, by Spark's session and Kafka's client in it."""

    def __init__(self, con: Connection, address: str) -> None:
        self.spark, self.address = con.spark, address
        self.jvm: Any = con.spark._jvm
        self.admin = self.jvm.org.apache.kafka.clients.admin
        properties = self.jvm.java.util.Properties()
        properties.setProperty("bootstrap.servers", address)
        self.client = self.admin.AdminClient.create(properties)

    def make(self, name: str, partitions: int = 1) -> None:
        """A topic."""
        of = self.jvm.java.util.Optional
        new = self.admin.NewTopic(name, of.of(partitions), of.empty())
        self.client.createTopics(self.jvm.java.util.List.of(new)).all().get()

    def drop(self, name: str) -> None:
        """Drop a topic; returns when it is gone."""
        self.client.deleteTopics(self.jvm.java.util.List.of(name)).all().get()
        while self.client.listTopics().names().get().contains(name):
            time.sleep(0.1)

    def remove(self, name: str, upper: int) -> None:
        """What retention does: the messages of partition 0 below an offset are gone."""
        gone = self.jvm.java.util.HashMap()
        key = self.jvm.org.apache.kafka.common.TopicPartition(name, 0)
        # A static method and another one have the same name, of which py4j takes any.
        kind = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        kind = kind.loadClass("org.apache.kafka.clients.admin.RecordsToDelete")
        (made,) = (m for m in kind.getMethods() if " static " in m.toString())
        given = self.spark.sparkContext._gateway.new_array(self.jvm.Object, 1)
        given[0] = self.jvm.java.lang.Long.valueOf(upper)
        gone.put(key, made.invoke(None, given))
        self.client.deleteRecords(gone).all().get()

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        more = self.jvm.java.util.HashMap()
        more.put(name, self.admin.NewPartitions.increaseTo(partitions))
        self.client.createPartitions(more).all().get()

    def send(self, name: str, *values: str | None, partition: int = 0) -> None:
        """Messages with the key k."""
        rows = [("k", value, partition) for value in values]
        frame = self.spark.createDataFrame(rows, "key STRING, value STRING, partition INT")
        writer = frame.coalesce(1).write.format("kafka").option("topic", name)
        writer.option("kafka.bootstrap.servers", self.address).save()


@pytest.fixture
def topics(address: str, con: Connection) -> Topics:
    """The broker's topics."""
    return Topics(con, address)


def _table(topics: Topics, name: str, columns: str, clauses: str = "", options: str = "") -> str:
    place = f"BROKER '{topics.address}', TOPIC '{name}'{options}"
    return f"CREATE TABLE {name} ({columns}) FROM KAFKA ({place}) {clauses}"


def _rows(con: Connection, sql: str) -> list[tuple[Any, ...]]:
    return sorted(con.execute(sql).fetchall(), key=repr)


def test_messages_come_in_once(con: Connection, topics: Topics) -> None:
    """In one commit a poll, with what was asked for beside the value; partitions may be added."""
    topics.make("orders", 2)
    topics.send("orders", '{"id": 1, "price": 1.50}', '{"id": 2, "more": 0}')
    topics.send("orders", None, partition=1)
    con.execute(
        _table(
            topics,
            "orders",
            "id INT, price DECIMAL(8, 2), key STRING, p INT, o BIGINT, at TIMESTAMP",
            "INCLUDE KEY, PARTITION AS p, OFFSET AS o, TIMESTAMP AS at COMMENT 'c'",
        )
    )
    con.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, count(at) AS a FROM orders")
    found = _rows(con, "SELECT p, o, id, CAST(price AS STRING), key FROM orders")
    assert found == [(0, 0, 1, "1.50", "k"), (0, 1, 2, None, "k"), (1, 0, None, None, "k")]
    before = len(versions(folder(con, "orders")))
    topics.grow("orders", 3)
    topics.send("orders", '{"id": 3}', '{"id": 4}', partition=2)
    topics.send("orders", '{"id": 5}')
    assert _rows(con, "SELECT * FROM n") == [(6, 6)]
    assert _rows(con, "SELECT p, o, id FROM orders WHERE id > 2") == [
        (0, 2, 5),
        (2, 0, 3),
        (2, 1, 4),
    ]
    assert len(versions(folder(con, "orders"))) == before + 1
    reader = Connection(con.warehouse, spark=con.spark, read_only=True)
    topics.send("orders", '{"id": 6}')
    assert _rows(reader, "SELECT count(*) FROM orders") == [(6,)]
    con.run(once=True)
    assert _rows(reader, "SELECT count(*) FROM orders") == [(7,)]


def test_bounds_and_starts(con: Connection, topics: Topics) -> None:
    """MAX_RECORDS bounds a commit, not what a read sees; START says where a table begins."""
    topics.make("many")
    topics.send("many", *(str(i) for i in range(7)))
    con.execute(_table(topics, "many", "v STRING", "FORMAT text", ", MAX_RECORDS 3"))
    assert _rows(con, "SELECT count(*) FROM many") == [(7,)]
    polls = [n for commit in log(folder(con, "many")) if (n := transaction(commit)) is not None]
    assert polls == [1, 2, 3]
    for name, start, wanted in (("late", "latest", []), ("some", "'{\"0\": 5}'", [b"5", b"6"])):
        text = _table(topics, "many", "v BINARY", "FORMAT bytes", f", START {start}")
        con.execute(text.replace("TABLE many", f"TABLE {name}"))
        assert _rows(con, f"SELECT * FROM {name}") == [(v,) for v in wanted]
    topics.send("many", "last")
    assert _rows(con, "SELECT * FROM late") == [(b"last",)]


UNREADABLE = [
    '{"id": "x"}', '{"id": 1.5}', '{"id": 99999999999}', '{"id": {}}', "", " ", "null", "5", "id",
    '[{"id": 1}]', '{"id": 1} {"id": 2}', '{"id": 1}, {"id": 2}', '{"id": 1', '{"l": [1, "x"]}',
    '{"s": {"a": "x"}}', '{"at": "soon"}',
]  # fmt: skip


def test_values_that_cannot_be_read(con: Connection, topics: Topics) -> None:
    """They are errors that name their offset, and never NULL; INCLUDE ERROR sets them aside."""
    topics.make("bad", len(UNREADABLE) + 1)
    topics.send("bad", '{"id": 1}', None)
    columns = "id INT, l ARRAY<INT>, s STRUCT<a: INT>, at TIMESTAMP"
    con.execute(_table(topics, "bad", columns))
    for partition, value in enumerate(UNREADABLE, 1):
        topics.send("bad", value, partition=partition)
    with pytest.raises(CtsqlError, match=r"partition \d+, offset 0, is no JSON") as refused:
        con.execute("SELECT * FROM bad")
    assert refused.value.condition == "DATA_ERROR"
    con.execute("SET isolation = 'serializable'")
    assert _rows(con, "SELECT id FROM bad") == [(1,), (None,)]
    con.execute("RESET isolation")
    text = _table(topics, "bad", f"{columns}, problem STRING", "INCLUDE ERROR AS problem")
    con.execute(text.replace("TABLE bad", "TABLE aside"))
    found = _rows(con, "SELECT * FROM aside WHERE problem IS NOT NULL")
    assert found == sorted([(None, None, None, None, value) for value in UNREADABLE], key=repr)
    assert _rows(con, "SELECT id FROM aside WHERE problem IS NULL") == [(1,), (None,)]


def test_what_is_gone(con: Connection, topics: Topics) -> None:
    """Lost messages are an error unless asked for; another topic of the name always is."""
    topics.make("kept")
    topics.send("kept", "a")
    con.execute(_table(topics, "kept", "v STRING", "FORMAT text"))
    skipping = _table(topics, "kept", "v STRING", "FORMAT text", ", DATA_LOSS skip")
    con.execute(skipping.replace("TABLE kept", "TABLE skipping"))
    topics.send("kept", "b", "c")
    topics.remove("kept", 2)
    with pytest.raises(CtsqlError, match="Partition 0 begins at offset 2; offset 1 comes next"):
        con.execute("SELECT * FROM kept")
    assert _rows(con, "SELECT * FROM skipping") == [("a",), ("c",)]
    topics.drop("kept")
    with pytest.raises(CtsqlError, match="KAFKA_UNAVAILABLE"):
        con.execute("SELECT * FROM skipping")
    topics.make("kept")
    topics.send("kept", *"abcdef")
    with pytest.raises(CtsqlError, match="KAFKA_TOPIC_REPLACED"):
        con.execute("SELECT * FROM skipping")


@pytest.mark.parametrize(
    ("columns", "clauses", "options", "condition"),
    [
        ("v STRING, w STRING", "FORMAT text", "", "COLUMN_COUNT_MISMATCH"),
        ("v INT", "FORMAT text", "", "TYPE_MISMATCH"),
        ("v INT", "INCLUDE KEY", "", "UNKNOWN_COLUMN"),
        ("v INT, at DATE, k INT", "INCLUDE KEY AS k", "", "TYPE_MISMATCH"),
        ("v INT", "", ", START '{\"9\": 0}'", "KAFKA_START_INVALID"),
        ("v INT", "", ", kafka.ssl.key.password ENV 'NO_SUCH'", "ENVIRONMENT_VARIABLE_MISSING"),
        ("v INT", "", ", kafka.security.protocol 'no'", "KAFKA_UNAVAILABLE"),
    ],
)
def test_refusals(
    con: Connection, topics: Topics, columns: str, clauses: str, options: str, condition: str
) -> None:
    """Nothing is left of the table."""
    if not topics.client.listTopics().names().get().contains("there"):
        topics.make("there")
    con.start()
    before = tree(Path(con.warehouse))
    with pytest.raises(CtsqlError) as refused:
        con.execute(_table(topics, "there", columns, clauses, options))
    assert refused.value.condition == condition, refused.value
    assert tree(Path(con.warehouse)) == before


def test_secrets_are_not_stored(
    con: Connection, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read from the environment; neither the warehouse nor SHOW CREATE has them."""
    monkeypatch.setenv("A_SECRET", "hush-hush")
    topics.make("hidden")
    topics.send("hidden", "a")
    option = ", kafka.ssl.truststore.password ENV 'A_SECRET'"
    con.execute(_table(topics, "hidden", "v STRING", "FORMAT text", option))
    assert _rows(con, "SELECT * FROM hidden") == [("a",)]
    ((_, text),) = con.execute("SHOW CREATE TABLE hidden").fetchall()
    assert "A_SECRET" in text
    files = [p for p in Path(con.warehouse).rglob("*") if p.is_file()]
    assert files
    assert not [p for p in files if b"hush-hush" in p.read_bytes()]


def _check(con: Connection, name: str, sent: int) -> None:
    """All messages by partition and offset, each once."""
    found = _rows(con, f"SELECT p, o FROM {name}")
    assert len(found) == sent
    counts = {p: sum(1 for q, _ in found if q == p) for p, _ in found}
    assert sorted(found) == [(p, o) for p, n in sorted(counts.items()) for o in range(n)]


def _made(con: Connection, topics: Topics, name: str) -> None:
    topics.make(name, PARTITIONS)
    con.execute(
        _table(
            topics,
            name,
            "p INT, o BIGINT, v STRING",
            "FORMAT text INCLUDE OFFSET AS o, PARTITION AS p",
        )
    )


@pytest.mark.parametrize("point", ["output_staged", "source_committed"])
def test_killed_at(point: str, con: Connection, topics: Topics, warehouse: Path) -> None:
    """Before the commit all of the poll comes in again, after it nothing."""
    name = f"killed_{point}"
    _made(con, topics, name)
    topics.send(name, "a", "b")
    run_killed(warehouse, [f"SELECT * FROM {name}"], point)
    topics.send(name, "c", partition=1)
    _check(con, name, 3)


def test_two_processes_at_once(con: Connection, topics: Topics, warehouse: Path) -> None:
    """Each message is in once."""
    _made(con, topics, "raced")
    for partition in range(PARTITIONS):
        topics.send("raced", *"abcdefgh", partition=partition)
    race(warehouse, [["SELECT * FROM raced"] * 3] * 2)
    _check(con, "raced", 8 * PARTITIONS)


def test_killed_services(
    con: Connection, topics: Topics, warehouse: Path, connect: Callable[[], Connection]
) -> None:
    """Two services poll while messages are sent; one or the other is killed at random moments."""
    _made(con, topics, "busy")
    draw = random.Random(seed())
    services: list[subprocess.Popen[str]] = []
    sent = 0
    try:
        for kill in range(KILLS):
            while len(services) < 2:
                services.append(start_program(_SERVICE, str(warehouse)))
            until = time.monotonic() + draw.uniform(8, 16)
            while time.monotonic() < until:
                count = draw.randrange(1, 40)
                topics.send("busy", *("x" * count), partition=draw.randrange(PARTITIONS))
                sent += count
                assert all(one.poll() is None for one in services), "a service ended by itself"
            killed = services.pop(kill % 2)
            killed.kill()
            killed.communicate()
        before = con.execute("SET isolation = 'serializable'") and _rows(con, "SELECT * FROM busy")
        assert before, "the services took nothing in"
    finally:
        for one in services:
            one.kill()
            one.communicate()
    con.execute("RESET isolation")
    _check(con, "busy", sent)


KEPT = """
    id INT UNIQUE ON VIOLATION DROP, v INT CHECK (v > 0) ON VIOLATION QUARANTINE, CHECK (id <> 13)
"""


def test_messages_are_looked_at(con: Connection, topics: Topics) -> None:
    """Constraints that ctsql keeps hold for messages; FAIL keeps a poll out until it is dropped."""
    topics.make("kept")
    topics.send("kept", '{"id": 1, "v": 1}', '{"id": 1, "v": 2}', '{"id": 2, "v": -2}')
    con.execute(_table(topics, "kept", KEPT))
    assert _rows(con, "SELECT * FROM kept") == [(1, 1)]
    before = len(versions(folder(con, "kept")))
    topics.send("kept", '{"id": 3, "v": -3}')  # nothing is kept: the offsets move all the same
    assert _rows(con, "SELECT * FROM kept") == [(1, 1)]
    assert len(versions(folder(con, "kept"))) == before + 1
    assert len(_rows(con, "SELECT * FROM kept_quarantine")) == 2
    con.execute("ALTER TABLE kept ADD CONSTRAINT few UNIQUE (v)")
    topics.send("kept", '{"id": 4, "v": 1}')
    with pytest.raises(CtsqlError, match='"few" is broken'):
        con.execute("SELECT * FROM kept")
    con.execute("ALTER TABLE kept DROP CONSTRAINT few")
    assert _rows(con, "SELECT * FROM kept") == [(1, 1), (4, 1)]
    counted = {r[2]: r[5] for r in con.execute("SHOW CONSTRAINTS FOR kept").fetchall()}
    assert (counted["id_unique"], counted["v_check"]) == (1, 2)


@pytest.mark.parametrize("moment", ["before its mint", "once it has staged"])
def test_another_process_takes_the_same_messages(
    moment: str,
    connect: Callable[[], Connection],
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are in once where nothing is locked: in one thread no lock keeps the other out."""
    con, other = connect(), connect()
    topics, name = Topics(con, address), f"kept_twice_{moment.replace(' ', '_')}"
    topics.make(name)
    topics.send(name, '{"v": 1}')
    con.execute(_table(topics, name, "v INT CHECK (v > 0) ON VIOLATION QUARANTINE"))
    assert _rows(other, f"SELECT * FROM {name}") == [(1,)]
    topics.send(name, '{"v": 2}', '{"v": -3}')
    progress_of, came = watched_topics.WriterProgress, list[str]()

    def come(at: str) -> None:
        if at == moment and not came:
            came.append(at)
            assert _rows(other, f"SELECT * FROM {name}") == [(1,), (2,)]

    def progress_after(**named: Any) -> Any:
        come("before its mint")
        return progress_of(**named)

    def point(reached: str) -> None:
        come("once it has staged" if reached == "transaction_staged" else "")

    monkeypatch.setattr(watched_topics, "WriterProgress", progress_after)
    monkeypatch.setattr(faults, "hooks", [point])
    assert _rows(con, f"SELECT * FROM {name}") == [(1,), (2,)]
    assert came
    assert _rows(con, f"SELECT row_json FROM {name}_quarantine") == [('{"v":-3}',)]
    counted = [r[5] for r in con.execute(f"SHOW CONSTRAINTS FOR {name}").fetchall()]
    assert counted == [1]


@pytest.mark.parametrize("point", ["transaction_staged", "intent_recorded", "source_committed"])
def test_killed_while_messages_are_looked_at(
    point: str, connect: Callable[[], Connection], warehouse: Path, address: str
) -> None:
    """What is kept and what is set aside is in once."""
    con, name = connect(), f"kept_killed_{point}"
    topics = Topics(con, address)
    topics.make(name)
    topics.send(name, '{"id": 1, "v": 1}')
    con.execute(_table(topics, name, KEPT))
    topics.send(name, '{"id": 2, "v": 2}', '{"id": 1, "v": 3}', '{"id": 4, "v": -4}')
    run_killed(warehouse, [f"SELECT * FROM {name}"], point)
    topics.send(name, '{"id": 5, "v": 5}')
    other = connect()
    assert _rows(other, f"SELECT id FROM {name}") == [(1,), (2,), (5,)]
    assert _rows(other, f"SELECT row_json FROM {name}_quarantine") == [('{"id":4,"v":-4}',)]
