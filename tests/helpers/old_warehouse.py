"""Warehouses that older programs wrote, as ``tests/old_warehouses`` keeps them."""

import tarfile
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "old_warehouses"
PLACE = b"@WAREHOUSE@"


def unpack(program: str, folder: Path) -> int:
    """Put the warehouse that a program wrote into a folder; gives when it was written last."""
    with tarfile.open(KEPT / program / "warehouse.tar.gz") as packed:
        packed.extractall(folder, filter="data")
        written = max(int(entry.mtime) for entry in packed)
    for path in folder.rglob("*"):
        if path.suffix in (".json", ".crc"):
            path.write_bytes(path.read_bytes().replace(PLACE, str(folder).encode()))
    return written * 1000
