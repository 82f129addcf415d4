"""Files of checksums as Hadoop keeps them beside files of a local disk, unless it is told not to.

Source: Hadoop's ``ChecksumFileSystem``.
"""

import struct
import zlib
from pathlib import Path

STEP = 512


def write_checksums(path: Path) -> None:
    """Write those of a file as it is now, as plain Spark does."""
    data = path.read_bytes()
    steps = (data[i : i + STEP] for i in range(0, len(data), STEP))
    sums = b"".join(struct.pack(">I", zlib.crc32(step)) for step in steps)
    path.with_name(f".{path.name}.crc").write_bytes(struct.pack(">4sI", b"crc\0", STEP) + sums)
