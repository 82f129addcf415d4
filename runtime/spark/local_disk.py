"""Hadoop's file system of a local disk, without a second file and a process for every file.

Beside each file Hadoop writes a hidden one with its checksums (``.NAME.crc``): half of the files of
a table. Parquet's pages, deletion vectors and Delta's state have checksums of their own, on every
store; those of others, which are there, are still compared.

Hadoop gives a file its mode by starting ``chmod``: 4 ms and more for each file of a log, of data
or of deletion vectors, whoever writes it. Java can do it itself.
"""

import os
from typing import Any

from pyspark.sql import SparkSession

from ctsql.runtime.spark.java_source import compile_java

_NAME = "ctsql.LocalDisk"
_KNOWN = (
    "org.apache.hadoop.fs.LocalFileSystem",
    # Of a JAR of Spark's: the same, but that renaming replaces no file. It goes before the other.
    "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem",
)
_SOURCE = """
package ctsql;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalDisk extends BEFORE {
    public LocalDisk() {
        fs = new Raw();
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission mode) throws IOException {
            if (mode.getStickyBit()) {
                super.setPermission(path, mode);
                return;
            }
            String text = mode.getUserAction().SYMBOL
                + mode.getGroupAction().SYMBOL + mode.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        }
    }
}
"""


def prepare_local_disk(session: SparkSession, *, with_modes: bool) -> None:
    """Let the JVM, which has just been started, write no files of checksums to its local disk.

    A file system that is configured and does not come with Spark stays as it is.

    Args:
        with_modes: set modes without a process, too; to compile that takes 0.6 CPU seconds.
    """
    jvm: Any = session._jvm
    hadoop = jvm.org.apache.hadoop
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    local = hadoop.fs.FileSystem.getLocal(configuration)
    kind = str(local.getClass().getName())
    if kind not in _KNOWN:
        return
    if with_modes and os.name == "posix":
        loader = compile_java(jvm, _SOURCE.replace("BEFORE", kind), local)
        own_configuration = hadoop.conf.Configuration(configuration)
        own_configuration.setClassLoader(loader)
        own_configuration.set("fs.file.impl", _NAME)
        uri = local.getUri()
        local.close()  # Hadoop keeps one for all of the JVM; now it looks for its class again
        local = hadoop.fs.FileSystem.get(uri, own_configuration)
    local.setWriteChecksum(False)
