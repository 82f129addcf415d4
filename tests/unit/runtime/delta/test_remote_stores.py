"""How this process reaches a store, by the settings of Spark's connector."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from ctsql.runtime.delta.remote_stores import (
    GCS_SECONDS,
    KINDS,
    Reached,
    hdfs_lacks,
    s3_arguments,
)
from ctsql.runtime.rows.declined import Declined

KEYS = {"access.key": "a", "secret.key": "s"}
HADOOP = "org.apache.hadoop.fs.s3a"
SIMPLE = f"{HADOOP}.SimpleAWSCredentialsProvider"
TEMPORARY = f"{HADOOP}.TemporaryAWSCredentialsProvider"
HADOOPS = (
    f"\n{TEMPORARY},\n {SIMPLE},\n "
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,\n "
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)
"""What Hadoop's own defaults list."""


Connection = tuple[dict[str, Any], bool]


def asked(bucket: str = "lake", **settings: str) -> Reached:
    named = {f"fs.s3a.{name}": value for name, value in settings.items()}
    return s3_arguments(bucket, named.get)


def by(*keys: str, may_write: bool = True, **others: object) -> Connection:
    """Reached by keys, and otherwise as AWS is."""
    names = ("access_key", "secret_key", "session_token")
    given = {
        **dict.fromkeys(names),
        **dict(zip(names, keys, strict=False)),
        "anonymous": False,
        "endpoint_override": None,
        "scheme": "https",
        "region": None,
        "force_virtual_addressing": False,
    }
    return {**given, **others}, may_write


@pytest.mark.parametrize(
    ("settings", "connection"),
    [
        ({}, by()),
        ({"aws.credentials.provider": HADOOPS}, by()),
        ({**KEYS, "aws.credentials.provider": HADOOPS}, by("a", "s")),
        (
            {**KEYS, "session.token": "t", "aws.credentials.provider": TEMPORARY},
            by("a", "s", "t"),
        ),
        (
            {"aws.credentials.provider": f"{HADOOP}.AnonymousAWSCredentialsProvider"},
            by(anonymous=True),
        ),
        (
            {**KEYS, "endpoint": "http://127.0.0.1:9000/", "path.style.access": "true"},
            by("a", "s", endpoint_override="127.0.0.1:9000", scheme="http"),
        ),
        (
            {**KEYS, "endpoint": "store:9000", "connection.ssl.enabled": "false"},
            by(
                "a",
                "s",
                endpoint_override="store:9000",
                scheme="http",
                force_virtual_addressing=True,
            ),
        ),
        (
            {**KEYS, "endpoint": "s3.amazonaws.com", "endpoint.region": "eu-central-1"},
            by("a", "s", region="eu-central-1"),
        ),
        (
            {**KEYS, "bucket.lake.access.key": "b", "bucket.other.access.key": "c"},
            by("b", "s"),
        ),
        ({**KEYS, "encryption.algorithm": "SSE-KMS"}, by("a", "s", may_write=False)),
        ({**KEYS, "acl.default": "PublicRead"}, by("a", "s", may_write=False)),
    ],
)
def test_a_bucket_is_reached_as_spark_is_told(
    settings: dict[str, str], connection: Connection
) -> None:
    """Keys, endpoint, region; what Arrow cannot write as Spark does is left to Spark."""
    assert asked(**settings) == connection


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"aws.credentials.provider": SIMPLE}, "there are no credentials"),
        (
            {"aws.credentials.provider": f"{HADOOP}.auth.AssumedRoleCredentialProvider"},
            "credentials come from AssumedRoleCredentialProvider",
        ),
        ({**KEYS, "encryption.algorithm": "CSE-KMS"}, "the connector itself encrypts, by CSE-KMS"),
        ({**KEYS, "encryption.algorithm": "SSE-C"}, "the connector itself encrypts, by SSE-C"),
        ({**KEYS, "requester.pays.enabled": "true"}, "the requester pays"),
        ({**KEYS, "proxy.host": "gate"}, "fs.s3a.proxy.host is set"),
        ({**KEYS, "bucket.lake.accesspoint.arn": "arn:x"}, "fs.s3a.accesspoint.arn is set"),
    ],
)
def test_what_arrow_cannot_do_is_left_to_spark(settings: dict[str, str], reason: str) -> None:
    """With the reason."""
    assert asked(**settings) == Declined(reason)


LAKE = "lake.dfs.core.windows.net"
KEY = {f"account.key.{LAKE}": "a"}
GCS = {
    "anonymous": False,
    "key_file": None,
    "scheme": "https",
    "endpoint_override": "storage.googleapis.com",
    "retry_time_limit": timedelta(seconds=GCS_SECONDS),
}
AZURE = {
    "account_name": "lake",
    "blob_storage_authority": ".blob.core.windows.net",
    "dfs_storage_authority": ".dfs.core.windows.net",
    "blob_storage_scheme": "https",
    "dfs_storage_scheme": "https",
}
OAUTH = {
    "account.auth.type": "OAuth",
    "account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
    "account.oauth2.client.id": "c",
    "account.oauth2.client.secret": "s",
    "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
}


def provider(name: str) -> dict[str, str]:
    """The settings of another provider of OAuth's tokens."""
    return {**OAUTH, "account.oauth.provider.type": f"org.apache.hadoop.fs.azurebfs.oauth2.{name}"}


def reached(uri: str, settings: dict[str, str], prefix: str = "") -> Reached:
    """How the store of a URI is reached."""
    scheme, _, authority = uri.partition("://")
    named = {f"{prefix}{name}": value for name, value in settings.items()}
    return KINDS[scheme].reach(authority, named.get)


@pytest.mark.parametrize(
    ("settings", "connection"),
    [
        ({}, GCS),
        ({"fs.gs.auth.type": "APPLICATION_DEFAULT"}, GCS),
        ({"fs.gs.auth.type": "UNAUTHENTICATED"}, {**GCS, "anonymous": True}),
        ({"fs.gs.auth.null.enable": "true"}, {**GCS, "anonymous": True}),
        (
            {
                "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "fs.gs.auth.service.account.json.keyfile": " /k.json ",
            },
            {**GCS, "key_file": "/k.json"},
        ),
        (
            {
                "fs.gs.auth.type": "COMPUTE_ENGINE",  # what Hadoop's defaults say
                "google.cloud.auth.service.account.json.keyfile": "/k.json",
            },
            {**GCS, "key_file": "/k.json"},
        ),
        (
            {
                "fs.gs.auth.type": "WORKLOAD_IDENTITY_FEDERATION_CREDENTIAL_CONFIG_FILE",
                "fs.gs.auth.workload.identity.federation.credential.config.file": "/w.json",
                "fs.gs.auth.service.account.json.keyfile": "/k.json",
            },
            {**GCS, "key_file": "/w.json"},
        ),
        (
            {"fs.gs.storage.root.url": "http://127.0.0.1:4443/", "fs.gs.proxy.address": ""},
            {**GCS, "scheme": "http", "endpoint_override": "127.0.0.1:4443"},
        ),
        ({"fs.gs.storage.service.path": "storage/v1/"}, GCS),
    ],
)
def test_gcs_is_reached_as_spark_is_told(
    settings: dict[str, str], connection: dict[str, Any]
) -> None:
    """Key files, endpoints; Google's older names as well."""
    assert reached("gs://lake", settings) == (connection, True)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}, "there are no credentials"),
        ({"auth.type": "USER_CREDENTIALS"}, "credentials come from USER_CREDENTIALS"),
        ({"auth.access.token.provider": "A"}, "fs.gs.auth.access.token.provider is set"),
        (
            {"auth.impersonation.service.account": "b"},
            "fs.gs.auth.impersonation.service.account is set",
        ),
        ({"encryption.key": "k"}, "fs.gs.encryption.key is set"),
        ({"proxy.address": "gate:80"}, "fs.gs.proxy.address is set"),
        ({"requester.pays.mode": "AUTO"}, "the requester pays"),
        (
            {"storage.root.url": "https://gate/gcs/"},
            "fs.gs.storage.root.url or fs.gs.storage.service.path has a path of its own",
        ),
        (
            {"storage.service.path": "storage/v2/"},
            "fs.gs.storage.root.url or fs.gs.storage.service.path has a path of its own",
        ),
    ],
)
def test_gcs_is_left_to_spark(settings: dict[str, str], reason: str) -> None:
    """With the reason."""
    assert reached("gs://lake", settings, "fs.gs.") == Declined(reason)


def test_a_key_file_is_named_while_the_client_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it stays in the environment, and what was there before is there again."""
    seen: list[str | None] = []
    variable = "GOOGLE_APPLICATION_CREDENTIALS"
    monkeypatch.setattr("pyarrow.fs.GcsFileSystem", lambda: seen.append(os.environ.get(variable)))
    for before in (None, "/before.json"):
        monkeypatch.delenv(variable, raising=False)
        if before is not None:
            monkeypatch.setenv(variable, before)
        for key_file in (None, "/k.json"):
            KINDS["gs"].connect(key_file=key_file)
            assert os.environ.get(variable) == before
    assert seen == [None, "/k.json", "/before.json", "/k.json"]


@pytest.mark.parametrize(
    ("settings", "connection"),
    [
        (KEY, {"account_key": "a"}),
        ({"account.key": "a"}, {"account_key": "a"}),
        ({**KEY, f"account.key.box.{LAKE}": "b"}, {"account_key": "b"}),
        ({**KEY, "account.key.other.dfs.core.windows.net": "b"}, {"account_key": "a"}),
        (
            {"account.auth.type": "SAS", f"sas.fixed.token.{LAKE}": "sv=1&sig=x"},
            {"sas_token": "?sv=1&sig=x"},
        ),
        (
            {"account.auth.type": "SAS", "sas.fixed.token": "?sv=1&sig=x"},
            {"sas_token": "?sv=1&sig=x"},
        ),
        (OAUTH, {"tenant_id": "t", "client_id": "c", "client_secret": "s"}),
        (provider("MsiTokenProvider"), {"client_id": "c"}),
        ({**provider("MsiTokenProvider"), "account.oauth2.client.id": ""}, {}),
        (provider("WorkloadIdentityTokenProvider"), {}),
    ],
)
def test_azure_is_reached_as_spark_is_told(
    settings: dict[str, str], connection: dict[str, Any]
) -> None:
    """By keys, SAS and OAuth; Spark writes, as Arrow would leave out the permissions of files."""
    found = reached(f"abfss://box@{LAKE}", settings, "fs.azure.")
    assert found == ({**AZURE, **connection}, False)


def test_where_azure_is() -> None:
    """Other clouds, an endpoint of one's own, without TLS; files without permissions."""
    cloud = {"blob_storage_authority": ".blob.core.chinacloudapi.cn"}
    cloud["dfs_storage_authority"] = ".dfs.core.chinacloudapi.cn"
    uri = "abfss://box@lake.blob.core.chinacloudapi.cn"
    settings = {"account.key": "a", "account.hns.enabled": "false"}
    wanted = {**AZURE, **cloud, "account_key": "a"}
    assert reached(uri, settings, "fs.azure.") == (wanted, True)

    local = {**KEY, "abfs.endpoint": "127.0.0.1:10000", "always.use.https": "false"}
    wanted = {**AZURE, "account_key": "a"}
    for service in ("blob", "dfs"):
        wanted[f"{service}_storage_authority"] = "127.0.0.1:10000"
    assert reached(f"abfss://box@{LAKE}", local, "fs.azure.") == (wanted, False)
    for service in ("blob", "dfs"):
        wanted[f"{service}_storage_scheme"] = "http"
    assert reached(f"abfs://box@{LAKE}", local, "fs.azure.") == (wanted, False)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "there are no credentials"),
        ({"account.auth.type": "SAS"}, "there are no credentials"),
        ({**OAUTH, "account.oauth2.client.secret": ""}, "there are no credentials"),
        ({"account.auth.type": "Custom"}, "credentials come from Custom"),
        (
            provider("RefreshTokenBasedTokenProvider"),
            "credentials come from RefreshTokenBasedTokenProvider",
        ),
        (
            {
                **OAUTH,
                "account.oauth2.client.endpoint": "https://login.chinacloudapi.cn/t/oauth2/token",
            },
            "fs.azure.account.oauth2.client.endpoint is not of Azure's public cloud",
        ),
        ({**KEY, "account.keyprovider": "P"}, "fs.azure.account.keyprovider is set"),
        (
            {**KEY, "encryption.encoded.client-provided-key": "k"},
            "fs.azure.encryption.encoded.client-provided-key is set",
        ),
    ],
)
def test_azure_is_left_to_spark(settings: dict[str, str], reason: str) -> None:
    """With the reason."""
    assert reached(f"abfss://box@{LAKE}", settings, "fs.azure.") == Declined(reason)


def test_an_account_behind_a_name_of_ones_own_is_left_to_spark() -> None:
    """Arrow makes the names of both services from that of the account."""
    found = reached("abfss://box@lake.example.com", {"fs.azure.account.key": "a"})
    reason = "lake.example.com is not the name of an account with its service"
    assert found == Declined(reason)


def test_hdfs_is_reached_as_spark_is_told() -> None:
    """One name node, or a service of several; files have the copies that Spark's have."""
    one = {"host": "n", "port": 9000, "replication": 3, "extra_conf": {}}
    assert reached("hdfs://n:9000", {"fs.azure.account.key": "a"}) == (one, True)
    settings = {
        "dfs.replication": "2",
        "hadoop.security.authentication": "kerberos",
        "dfs.nameservices": "ns,other",
        "dfs.ha.namenodes.ns": "a, b",
        "dfs.namenode.rpc-address.ns.a": "m1:8020",
        "dfs.namenode.rpc-address.ns.b": "m2:8020",
        "dfs.client.failover.proxy.provider.ns": "Proxies",
    }
    passed = {name: value for name, value in settings.items() if name != "dfs.replication"}
    service = {"host": "ns", "port": 0, "replication": 2, "extra_conf": passed}
    assert reached("hdfs://ns", settings) == (service, True)
    other = {"host": "other", "port": 8020, "replication": 2}
    other["extra_conf"] = {"hadoop.security.authentication": "kerberos"}
    assert reached("hdfs://other", settings) == (other, True)


@pytest.mark.parametrize(
    ("before", "after"), [(None, "-Xrs"), ("-Xmx1g", "-Xmx1g -Xrs"), ("-Xrs -Xmx1g", "-Xrs -Xmx1g")]
)
def test_the_jvm_in_this_process_leaves_signals_alone(
    before: str | None, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Ctrl-C and SIGTERM would end the process at once."""
    monkeypatch.setattr("ctsql.runtime.delta.remote_stores.hdfs_lacks", lambda _found: "")
    monkeypatch.setattr("pyarrow.fs.HadoopFileSystem", lambda: os.environ["LIBHDFS_OPTS"])
    monkeypatch.setenv("LIBHDFS_OPTS", "")
    if before is not None:
        monkeypatch.setenv("LIBHDFS_OPTS", before)
    assert KINDS["hdfs"].connect() == after


def test_what_hdfs_needs(tmp_path: Path) -> None:
    """Without Hadoop's classes its library would end the process; so they are looked for first."""
    home, jars = tmp_path / "hadoop", tmp_path / "jars"
    (home / "lib" / "native").mkdir(parents=True)
    jars.mkdir()
    (jars / "broken.jar").write_text("no archive")
    found = {}
    assert hdfs_lacks(found) == "JAVA_HOME is not set"
    found["JAVA_HOME"] = "/java"
    assert hdfs_lacks(found) == "CLASSPATH is not set"
    found["CLASSPATH"] = f"{tmp_path}{os.pathsep}{jars}/*"
    library = "there is no libhdfs in ARROW_LIBHDFS_DIR, or in HADOOP_HOME/lib/native"
    assert hdfs_lacks(found) == library
    found["HADOOP_HOME"] = str(home)
    assert hdfs_lacks(found) == library
    (home / "lib" / "native" / "libhdfs.so").touch()
    assert hdfs_lacks({**found, "ARROW_LIBHDFS_DIR": str(jars)}) == library
    client, lang = "org/apache/hadoop/hdfs/DistributedFileSystem.class", "ExceptionUtils.class"
    lang = f"org/apache/commons/lang3/exception/{lang}"
    assert hdfs_lacks(found) == f"CLASSPATH has no {lang}"
    for name in (lang, client):
        with ZipFile(jars / f"{len(name)}.jar", "w") as jar:
            jar.writestr(name, b"")
        lacking = hdfs_lacks(found)
        assert lacking == ("" if name == client else f"CLASSPATH has no {client}")
