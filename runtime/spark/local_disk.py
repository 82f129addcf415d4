"""Hadoop's file system of a local disk, without a process for every file.

Hadoop gives a file its mode by starting ``chmod``, and so the file of its checksum: 4 ms and more
for each file of a log, of data or of deletion vectors, whoever writes it. Java can do it itself.
What is written where, and under which mode, stays as it is.

Spark's own compiler makes the class in the JVM, for which a JAR of ours would have to be shipped.
"""

import os
from typing import Any

from pyspark.sql import SparkSession

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


def set_modes_in_java(session: SparkSession) -> None:
    """Let the JVM, which has just been started, use this file system for its local disk.

    One that is configured to use another than those that come with Spark keeps that.
    """
    jvm: Any = session._jvm
    hadoop = jvm.org.apache.hadoop
    configured = session.sparkContext._jsc.hadoopConfiguration()
    before = hadoop.fs.FileSystem.getLocal(configured)
    kind = str(before.getClass().getName())
    if os.name != "posix" or kind not in _KNOWN:
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(before.getClass().getClassLoader())
    compiler.cook(_SOURCE.replace("BEFORE", kind))
    named = hadoop.conf.Configuration(configured)
    named.setClassLoader(compiler.getClassLoader())
    named.set("fs.file.impl", _NAME)
    before.close()  # Hadoop keeps one for all of the JVM; now it looks for its class again
    hadoop.fs.FileSystem.get(before.getUri(), named)
