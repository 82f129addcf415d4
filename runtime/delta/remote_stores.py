"""For each kind of store: which file system of Arrow serves it, and how that finds its credentials.

=============== =================== ==============================================================
URI             of Arrow            credentials
=============== =================== ==============================================================
``s3a:``        S3FileSystem        ``fs.s3a.*``; without keys those of the surroundings
``gs:``         GcsFileSystem       ``fs.gs.auth.*``: a key file, none, those of the surroundings
``abfs(s):``    AzureFileSystem     ``fs.azure.account.*``: an account's key, SAS, OAuth
``hdfs:``       HadoopFileSystem    the user of the process, or the Kerberos ticket it has
=============== =================== ==============================================================

*Surroundings* are what the client of the store's maker looks through by itself: variables of the
environment, files of the user, the machine's own identity.

Each function here says how Arrow reaches a store as Spark's connector is told to, or declines where
a setting has no counterpart in Arrow: it is pure, and asks nothing of a store. Beside the arguments
it says whether a file that Arrow writes there is as one that Spark writes.

Source: Hadoop 3.5's pages on S3A, on ABFS and on HDFS; ``CONFIGURATION.md`` of Google's connector;
the reference of ``pyarrow.fs``.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from glob import glob
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlparse
from zipfile import BadZipFile, ZipFile

import pyarrow.fs
from pyarrow.fs import FileSystem

from ctsql.runtime.rows.declined import Declined

Setting = Callable[[str], str | None]
"""The value of a Hadoop setting, None without one."""
Reached = tuple[dict[str, Any], bool] | Declined
"""What the file system is made with, and whether it may write there."""

NO_CREDENTIALS = "there are no credentials"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of store.

    Attributes:
        reach: how the store of an authority, as URIs name it, is reached.
        connect: makes the file system of these arguments.
        root: what stands in front of a path there, by the authority.
    """

    reach: Callable[[str, Setting], Reached]
    connect: Callable[..., FileSystem]
    root: Callable[[str], str] = str


# ---- S3

_AWS = "s3.amazonaws.com"
_BY_KEYS = {"SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"}
_BY_SURROUNDINGS = {"EnvironmentVariableCredentialsProvider", "IAMInstanceCredentialsProvider"}
_ANONYMOUS = {"AnonymousAWSCredentialsProvider"}
_ONLY_SPARK = ("fs.s3a.accesspoint.arn", "fs.s3a.proxy.host")
_ONLY_SPARK_WRITES = (
    "fs.s3a.acl.default",
    "fs.s3a.create.storage.class",
    "fs.s3a.encryption.algorithm",
)


def s3_arguments(bucket: str, setting: Setting) -> Reached:
    """How Arrow's ``S3FileSystem`` reaches a bucket; settings of the bucket come first."""

    def get(name: str) -> str:
        own = name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1)
        return (setting(own) or setting(name) or "").strip()

    for name in _ONLY_SPARK:
        if get(name):
            return Declined(f"{name} is set")
    if get("fs.s3a.requester.pays.enabled") == "true":
        return Declined("the requester pays")
    encryption = get("fs.s3a.encryption.algorithm")
    if encryption.startswith("CSE") or encryption == "SSE-C":
        return Declined(f"the connector itself encrypts, by {encryption}")

    listed = get("fs.s3a.aws.credentials.provider").replace("\n", ",").split(",")
    providers = {name.strip().rsplit(".", 1)[-1] for name in listed if name.strip()}
    if unknown := providers - _BY_KEYS - _BY_SURROUNDINGS - _ANONYMOUS:
        return Declined(f"credentials come from {min(unknown)}")
    access, secret = get("fs.s3a.access.key"), get("fs.s3a.secret.key")
    by_keys = bool(access and secret and (not providers or providers & _BY_KEYS))
    is_anonymous = not by_keys and bool(providers) and providers <= _BY_KEYS | _ANONYMOUS
    if is_anonymous and not providers & _ANONYMOUS:
        return Declined(NO_CREDENTIALS)

    endpoint = get("fs.s3a.endpoint")
    scheme, _, host = endpoint.rpartition("://")
    if not scheme:
        scheme = "http" if get("fs.s3a.connection.ssl.enabled") == "false" else "https"
    is_own = bool(host) and host != _AWS
    arguments = {
        "access_key": access if by_keys else None,
        "secret_key": secret if by_keys else None,
        "session_token": (get("fs.s3a.session.token") or None) if by_keys else None,
        "anonymous": is_anonymous,
        "endpoint_override": host.rstrip("/") if is_own else None,
        "scheme": scheme,
        "region": get("fs.s3a.endpoint.region") or None,
        "force_virtual_addressing": is_own and get("fs.s3a.path.style.access") != "true",
    }
    return arguments, not any(get(name) for name in _ONLY_SPARK_WRITES)


# ---- Google Cloud Storage

GCS_SECONDS = 10
"""For how long a request that fails is repeated; Google's client would do so for 15 minutes."""
_KEY_FILE = "auth.service.account.json.keyfile"
_GCS_FILES = {
    "SERVICE_ACCOUNT_JSON_KEYFILE": _KEY_FILE,
    "WORKLOAD_IDENTITY_FEDERATION_CREDENTIAL_CONFIG_FILE": (
        "auth.workload.identity.federation.credential.config.file"
    ),
}
_NOT_OF_GCS = (
    "auth.access.token.provider",
    "auth.access.token.provider.impl",
    "auth.impersonation.service.account",
    "auth.service.account.keyfile",
    "auth.service.account.private.key",
    "encryption.key",
    "proxy.address",
    "token.server.url",
)
_KEY_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_key_lock = Lock()


def gcs_arguments(_bucket: str, setting: Setting) -> Reached:
    """How Arrow's ``GcsFileSystem`` reaches a bucket; ``key_file`` is for :func:`_connect_gcs`."""

    def get(name: str) -> str:
        return (setting(f"fs.gs.{name}") or setting(f"google.cloud.{name}") or "").strip()

    for name in _NOT_OF_GCS:
        if get(name):
            return Declined(f"fs.gs.{name} is set")
    if get("requester.pays.mode").upper() not in ("", "DISABLED"):
        return Declined("the requester pays")

    how = get("auth.type") or "COMPUTE_ENGINE"  # Hadoop's own default
    key_file: str | None = None
    if get("auth.null.enable") == "true":  # of connectors before 3.0, as a key file without a type
        how = "UNAUTHENTICATED"
    if how == "COMPUTE_ENGINE" and get(_KEY_FILE):
        how = "SERVICE_ACCOUNT_JSON_KEYFILE"
    if how in _GCS_FILES:
        key_file = get(_GCS_FILES[how])
        if not key_file:
            return Declined(NO_CREDENTIALS)
    elif how not in ("APPLICATION_DEFAULT", "COMPUTE_ENGINE", "UNAUTHENTICATED"):
        return Declined(f"credentials come from {how}")

    root = urlparse(get("storage.root.url") or "https://storage.googleapis.com/")
    if root.path.strip("/") or get("storage.service.path").strip("/") not in ("", "storage/v1"):
        return Declined(
            "fs.gs.storage.root.url or fs.gs.storage.service.path has a path of its own"
        )
    arguments = {
        "anonymous": how == "UNAUTHENTICATED",
        "key_file": key_file,
        "scheme": root.scheme,
        "endpoint_override": root.netloc,
        "retry_time_limit": timedelta(seconds=GCS_SECONDS),
    }
    return arguments, True


def _connect_gcs(key_file: str | None, **arguments: Any) -> FileSystem:
    """Google's client takes a key file from the environment alone, and only while it is made."""
    with _variable(_KEY_VARIABLE, key_file):
        return pyarrow.fs.GcsFileSystem(**arguments)


@contextmanager
def _variable(name: str, value: str | None) -> Iterator[None]:
    """Give a variable of the environment a value, and take it back; None for nothing."""
    if value is None:
        yield
        return
    with _key_lock:
        before = os.environ.get(name)
        os.environ[name] = value
        try:
            yield
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


# ---- Azure

_LOGIN = re.compile(r"https://login\.microsoftonline\.com/([^/]+)/oauth2(?:/v2\.0)?/token/?")
_NOT_OF_AZURE = (
    "fs.azure.account.keyprovider",
    "fs.azure.encryption.context.provider.type",
    "fs.azure.encryption.encoded.client-provided-key",
    "fs.azure.sas.token.provider.type",
)


def abfs_arguments(authority: str, setting: Setting, *, is_secure: bool = True) -> Reached:
    """How Arrow's ``AzureFileSystem`` reaches an account; settings of the container come first.

    With a hierarchical namespace files have permissions, which Spark's connector sets and Arrow
    does not: Azure would keep from others what Spark lets them read. There Spark writes.
    """
    container, _, host = authority.partition("@")

    def get(name: str) -> str:
        names = (f"{name}.{container}.{host}", f"{name}.{host}", name)
        return next((found.strip() for n in names if (found := setting(n))), "")

    for name in _NOT_OF_AZURE:
        if get(name):
            return Declined(f"{name} is set")
    account, _, domain = host.partition(".")
    service, _, cloud = domain.partition(".")
    if service not in ("dfs", "blob") or not cloud:
        return Declined(f"{host} is not the name of an account with its service")
    credentials = _azure_credentials(get)
    if isinstance(credentials, Declined):
        return credentials
    endpoint = get("fs.azure.abfs.endpoint")
    is_plain = not is_secure and get("fs.azure.always.use.https") == "false"
    scheme = "http" if is_plain else "https"
    arguments = {
        "account_name": account,
        "blob_storage_authority": endpoint or f".blob.{cloud}",
        "dfs_storage_authority": endpoint or f".dfs.{cloud}",
        "blob_storage_scheme": scheme,
        "dfs_storage_scheme": scheme,
        **credentials,
    }
    return arguments, get("fs.azure.account.hns.enabled") == "false"


def _azure_credentials(get: Callable[[str], str]) -> dict[str, str] | Declined:
    """Those of an account; empty for those of the surroundings."""
    how = get("fs.azure.account.auth.type") or "SharedKey"
    if how == "SharedKey":
        return _given(account_key=get("fs.azure.account.key"))
    if how == "SAS":
        token = get("fs.azure.sas.fixed.token").removeprefix("?")
        return {"sas_token": f"?{token}"} if token else Declined(NO_CREDENTIALS)
    provider = get("fs.azure.account.oauth.provider.type").rpartition(".")[2]
    client = get("fs.azure.account.oauth2.client.id")
    if how == "OAuth" and provider == "ClientCredsTokenProvider":
        login = _LOGIN.fullmatch(get("fs.azure.account.oauth2.client.endpoint"))
        if login is None:
            return Declined(
                "fs.azure.account.oauth2.client.endpoint is not of Azure's public cloud"
            )
        secret = get("fs.azure.account.oauth2.client.secret")
        return _given(tenant_id=login[1], client_id=client, client_secret=secret)
    if how == "OAuth" and provider == "MsiTokenProvider":
        return {"client_id": client} if client else {}
    if how == "OAuth" and provider == "WorkloadIdentityTokenProvider":
        return {}
    return Declined(f"credentials come from {provider or how}")


def _given(**credentials: str) -> dict[str, str] | Declined:
    return credentials if all(credentials.values()) else Declined(NO_CREDENTIALS)


# ---- HDFS

_HDFS_PORT = 8020
_OF_HDFS = (
    "dfs.blocksize",
    "dfs.client.use.datanode.hostname",
    "dfs.data.transfer.protection",
    "dfs.encrypt.data.transfer",
    "dfs.namenode.kerberos.principal",
    "fs.permissions.umask-mode",
    "hadoop.rpc.protection",
    "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
)
"""What Hadoop's client in this process is told, as Spark's is."""
_NEEDED_CLASSES = {
    "org/apache/hadoop/hdfs/DistributedFileSystem.class",
    "org/apache/commons/lang3/exception/ExceptionUtils.class",
}
"""Without the second ``libhdfs`` ends the process when it wants to report an error."""
_NO_SIGNALS = "-Xrs"
"""Otherwise the JVM within this process takes Ctrl-C and SIGTERM for itself."""


def hdfs_arguments(authority: str, setting: Setting) -> Reached:
    """How Arrow's ``HadoopFileSystem`` reaches a name node, or a name service of several."""
    host, _, port = authority.partition(":")
    names = list(_OF_HDFS)
    nodes = setting(f"dfs.ha.namenodes.{host}")
    if nodes:
        names += ["dfs.nameservices", f"dfs.ha.namenodes.{host}"]
        names += [f"dfs.client.failover.proxy.provider.{host}"]
        names += [f"dfs.namenode.rpc-address.{host}.{node.strip()}" for node in nodes.split(",")]
    arguments = {
        "host": host,
        "port": 0 if nodes else int(port or _HDFS_PORT),
        "replication": int(setting("dfs.replication") or 3),
        "extra_conf": {name: value for name in names if (value := setting(name))},
    }
    return arguments, True


def _connect_hdfs(**arguments: Any) -> FileSystem:
    """Connect by ``libhdfs``, which runs Hadoop's client in a JVM within this process."""
    lacking = hdfs_lacks(os.environ)
    if lacking:
        raise OSError(lacking)
    options = os.environ.get("LIBHDFS_OPTS", "")
    if _NO_SIGNALS not in options.split():
        os.environ["LIBHDFS_OPTS"] = f"{options} {_NO_SIGNALS}".strip()
    return pyarrow.fs.HadoopFileSystem(**arguments)


def hdfs_lacks(environment: Mapping[str, str]) -> str:
    """What Arrow needs for HDFS and does not find by these variables; empty if it finds all."""
    for name in ("JAVA_HOME", "CLASSPATH"):
        if not environment.get(name):
            return f"{name} is not set"
    own, home = environment.get("ARROW_LIBHDFS_DIR"), environment.get("HADOOP_HOME")
    folder = Path(own) if own else Path(home or "/", "lib", "native")
    if not list(folder.glob("libhdfs.*")):
        return "there is no libhdfs in ARROW_LIBHDFS_DIR, or in HADOOP_HOME/lib/native"
    lacking = set(_NEEDED_CLASSES)
    for entry in environment["CLASSPATH"].split(os.pathsep):
        for jar in glob(f"{entry}.jar" if entry.endswith("*") else entry):
            lacking -= _classes_in(jar, lacking)
            if not lacking:
                return ""
    return f"CLASSPATH has no {min(lacking)}"


def _classes_in(path: str, wanted: set[str]) -> set[str]:
    if not path.endswith(".jar"):
        return set()
    try:
        with ZipFile(path) as jar:
            return wanted & set(jar.namelist())
    except (OSError, BadZipFile):
        return set()  # as the JVM does


def _container(authority: str) -> str:
    return authority.partition("@")[0]


def _nothing(_authority: str) -> str:
    return ""


def _system(name: str) -> Callable[..., FileSystem]:
    """A file system of Arrow's; raises ImportError where Arrow was built without it."""

    def connect(**arguments: Any) -> FileSystem:
        made: FileSystem = getattr(pyarrow.fs, name)(**arguments)
        return made

    return connect


KINDS: Mapping[str, Kind] = {
    "s3a": Kind(s3_arguments, _system("S3FileSystem")),
    "gs": Kind(gcs_arguments, _connect_gcs),
    "abfs": Kind(partial(abfs_arguments, is_secure=False), _system("AzureFileSystem"), _container),
    "abfss": Kind(abfs_arguments, _system("AzureFileSystem"), _container),
    "hdfs": Kind(hdfs_arguments, _connect_hdfs, _nothing),
}
"""By the scheme of URIs."""
