"""How this process reaches a bucket, by the settings of Spark's connector."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from ctsql.catalog.declined import Declined
from ctsql.runtime.delta.stores.file_stores import (
    REMOTE_THREADS,
    ArrowStore,
    bucket_of,
    path_in_store,
    s3_arguments,
)

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


def asked(bucket: str = "lake", **settings: str) -> Connection | Declined:
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
            {**KEYS, "endpoint": "http://127.0.0.1:9000/", "path.style.access": "True"},
            by("a", "s", endpoint_override="127.0.0.1:9000", scheme="http"),
        ),
        (
            {**KEYS, "endpoint": "store:9000", "connection.ssl.enabled": "FALSE"},
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
        ({**KEYS, "requester.pays.enabled": "True"}, "the requester pays"),
        ({**KEYS, "proxy.host": "gate"}, "fs.s3a.proxy.host is set"),
        ({**KEYS, "bucket.lake.accesspoint.arn": "arn:x"}, "fs.s3a.accesspoint.arn is set"),
    ],
)
def test_what_arrow_cannot_do_is_left_to_sparks_connector(
    settings: dict[str, str], reason: str
) -> None:
    """With the reason."""
    assert asked(**settings) == Declined(reason)


def test_locations() -> None:
    """As Arrow takes them."""
    assert bucket_of("s3a://lake/w/t 1%20") == "lake"
    assert path_in_store("s3a://lake/w/t 1%20") == "lake/w/t 1%20"
    assert bucket_of("hdfs://host:8020/w") is bucket_of("file:/w") is None
    assert path_in_store("file:/w/t%201") == "/w/t%201"


def test_a_remote_store_is_read_with_more_threads(tmp_path: Path) -> None:
    """Its answers take long."""
    assert ArrowStore(SubTreeFileSystem(str(tmp_path), LocalFileSystem())).threads == REMOTE_THREADS
