"""The stores whose files this process reads and writes itself: local disks, and S3 by Arrow.

S3 is reached by the settings of Spark's connector (``fs.s3a.*``, those of the bucket first). If a
setting has no counterpart in Arrow, or if Arrow does not find a file that Spark sees, that
connector is used, as for all other stores (:mod:`ctsql.runtime.delta.stores.connector_store`).

Source: Hadoop's "Connecting to an Amazon S3 Bucket through the S3A Connector", and the reference of
    ``pyarrow.fs.S3FileSystem``.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from urllib.parse import urlparse

from pyarrow import NativeFile
from pyarrow.fs import FileSystem, LocalFileSystem, S3FileSystem

from ctsql.catalog.declined import Declined
from ctsql.runtime.delta.stores.locks import local_path

REMOTE_THREADS = 8  # files read in parallel from a remote store; each holds columns of a row group
_PATTERN_SIGN = re.compile(r"[\\*?{}\[\]]")
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

Setting = Callable[[str], str | None]  # returns the value of a Hadoop setting, None without one


class FileStore(ABC):
    """A store; all of its methods raise OSError.

    Attributes:
        may_write: whether a file written by this process equals one written by Spark.
    """

    is_local = False
    may_write = True

    @property
    def threads(self) -> int:
        """The number of files to read in parallel."""
        return (os.cpu_count() or 1) if self.is_local else REMOTE_THREADS

    @abstractmethod
    def open_input(self, path: str, size: int) -> NativeFile:
        """A file of some bytes, to read from any place of it."""

    @abstractmethod
    def open_output(self, path: str) -> NativeFile:
        """A new file; it is there when it has been closed."""


class ArrowStore(FileStore):
    """A store by one of Arrow's file systems."""

    def __init__(
        self, files: FileSystem, *, is_local: bool = False, may_write: bool = True
    ) -> None:
        self.files = files
        self.is_local = is_local
        self.may_write = may_write

    def size_of(self, path: str) -> int | None:
        """The bytes of a file; None if there is none."""
        size: int | None = self.files.get_file_info(path).size
        return size

    def open_input(self, path: str, size: int) -> NativeFile:
        """A file of some bytes, to read from any place of it."""
        return self.files.open_input_file(path)

    def open_output(self, path: str) -> NativeFile:
        """A new file; it is there when it has been closed."""
        return self.files.open_output_stream(path)


LOCAL = ArrowStore(LocalFileSystem(), is_local=True)


def path_in_store(location: str) -> str:
    """The path of a table's location for Arrow: with the bucket, without the scheme."""
    folder = local_path(location)
    return location.partition(":")[2].removeprefix("//") if folder is None else str(folder)


def bucket_of(location: str) -> str | None:
    """The bucket of a location on S3, None for any other store."""
    uri = urlparse(location)
    return uri.netloc if uri.scheme == "s3a" else None


def open_bucket(bucket: str, setting: Setting) -> FileStore | Declined:
    """A bucket with the settings of Spark's connector; sends no request yet."""
    access = s3_arguments(bucket, setting)
    if isinstance(access, Declined):
        return access
    arguments, may_write = access
    return ArrowStore(S3FileSystem(**arguments), may_write=may_write)


def s3_arguments(bucket: str, setting: Setting) -> tuple[dict[str, Any], bool] | Declined:
    """Arguments of Arrow's ``S3FileSystem`` for a bucket, and whether it may write there. Pure.

    Declined if Spark's connector would reach it differently. Without keys, credentials are those of
    the process's environment.
    """

    def get(name: str) -> str:
        own = name.replace("fs.s3a.", f"fs.s3a.bucket.{bucket}.", 1)
        return (setting(own) or setting(name) or "").strip()

    def says(name: str, word: str) -> bool:
        return get(name).lower() == word  # as Hadoop reads true and false

    for name in _ONLY_SPARK:
        if get(name):
            return Declined(f"{name} is set")
    if says("fs.s3a.requester.pays.enabled", "true"):
        return Declined("the requester pays")
    encryption = get("fs.s3a.encryption.algorithm")
    if encryption.startswith("CSE") or encryption == "SSE-C":
        return Declined(f"the connector itself encrypts, by {encryption}")

    class_names = get("fs.s3a.aws.credentials.provider").replace("\n", ",").split(",")
    providers = {name.strip().rsplit(".", 1)[-1] for name in class_names if name.strip()}
    if unknown := providers - _BY_KEYS - _BY_SURROUNDINGS - _ANONYMOUS:
        return Declined(f"credentials come from {min(unknown)}")
    access, secret = get("fs.s3a.access.key"), get("fs.s3a.secret.key")
    by_keys = bool(access and secret and (not providers or providers & _BY_KEYS))
    is_anonymous = not by_keys and bool(providers) and providers <= _BY_KEYS | _ANONYMOUS
    if is_anonymous and not providers & _ANONYMOUS:
        return Declined("there are no credentials")

    endpoint = get("fs.s3a.endpoint")
    scheme, _, host = endpoint.rpartition("://")
    if not scheme:
        scheme = "http" if says("fs.s3a.connection.ssl.enabled", "false") else "https"
    is_own = bool(host) and host != _AWS
    arguments = {
        "access_key": access if by_keys else None,
        "secret_key": secret if by_keys else None,
        "session_token": (get("fs.s3a.session.token") or None) if by_keys else None,
        "anonymous": is_anonymous,
        "endpoint_override": host.rstrip("/") if is_own else None,
        "scheme": scheme,
        "region": get("fs.s3a.endpoint.region") or None,
        "force_virtual_addressing": is_own and not says("fs.s3a.path.style.access", "true"),
    }
    return arguments, not any(get(name) for name in _ONLY_SPARK_WRITES)


def pattern_of(path: str) -> str:
    """The pattern that matches this path alone, for Spark's readers.

    With their option for literal paths they read all paths again for each path that looks like a
    pattern.
    """
    return _PATTERN_SIGN.sub(r"\\\g<0>", path)
