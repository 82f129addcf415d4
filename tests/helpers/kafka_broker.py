"""A Kafka broker of one node on this machine: a Java process, its JARs fetched by Maven."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.maven_jars import jars_of

BROKER = ("org.apache.kafka", "kafka_2.13", "3.9.1")
CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")
SECONDS_TO_START = 60
_SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.quorum.voters=1@127.0.0.1:{control}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


def broker_jars(folder: Path) -> list[Path]:
    """The JARs of a broker, fetched into a folder unless they are there."""
    return jars_of(folder, BROKER)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def broker(jars: list[Path], folder: Path) -> Iterator[str]:
    """A broker that keeps its data in a folder; its address."""
    port, control = _free_port(), _free_port()
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, control=control, folder=folder))
    java = ["java", "-Xmx384m", "-cp", os.pathsep.join(map(str, jars))]
    made = [*java, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw"]
    with (folder / "log").open("w") as log:
        subprocess.run([*made, "-c", str(settings)], check=True, stdout=log, stderr=log)
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
        try:
            _wait_for(port, process, folder / "log")
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-2000:]
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(log.read_text()[-2000:])
