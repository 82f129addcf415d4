"""Where the keeper of a user listens, and what a command must share with it.

The socket's name is made of all that decides what a JVM and its Python do: the program, its
version and folder, and the environment that configures Java, Spark and stores. A command with
another of these finds no keeper, and starts a Spark of its own. Imports only what costs nothing:
each command looks here first.
"""

import hashlib
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from ctsql.catalog.switches import read_switch

OWNER_ONLY = 0o700
SWITCH = "CTSQL_WARM"
"""The environment variable that keeps commands from using a Spark that stays, by ``off``."""
MINUTES = "CTSQL_WARM_MINUTES"
"""The environment variable that says after how many minutes without a command it ends."""
MINUTES_DEFAULT = 10.0
_FOLDER_BYTES_MAX = 80  # with the name of a socket some systems allow 104 bytes
_CONFIGURING = (
    *("AWS", "AZURE", "CTSQL_CLASS", "GOOGLE", "HADOOP", "JAVA", "JDK", "PATH", "PYSPARK"),
    *("SPARK", "YARN", "_JAVA"),
)
"""How the names of environment variables begin that a JVM depends on."""
_PACKAGE = Path(__file__).resolve().parent.parent


def is_on(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a command may use a Spark that stays."""
    return read_switch(environ.get(SWITCH, "")) is not False


def folder() -> Path:
    """The folder of the sockets, which need not be there.

    It is in the user's cache folder, or in the folder of temporary files where that one's path is
    too long for the name of a socket.
    """
    from platformdirs import user_cache_path

    home = user_cache_path("ctsql") / "warm"
    if len(os.fsencode(home)) <= _FOLDER_BYTES_MAX:
        return home
    import tempfile

    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    return Path(tempfile.gettempdir(), f"ctsql-{os.getuid()}-{digest}")


def is_private(home: Path) -> bool:
    """Whether a folder is there, is the user's, and only its owner may look into it."""
    try:
        status = home.lstat()
    except OSError:
        return False
    is_own = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
    return is_own and not status.st_mode & ~OWNER_ONLY & 0o777


def socket_of(home: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """The socket of the keeper that fits this program and this environment.

    Args:
        home: :func:`folder`.
    """
    import ctsql

    words = [
        sys.executable,
        sys.version,
        ctsql.__version__,
        str(_PACKAGE),
        os.environ.get("PATH", ""),
    ]
    words += sorted(
        f"{name}={value}" for name, value in environ.items() if name.startswith(_CONFIGURING)
    )
    return home / f"{hashlib.sha256(chr(0).join(words).encode()).hexdigest()[:16]}.sock"


def state_of_code() -> tuple[int, int]:
    """What changes when ctsql or a library is replaced: times of change, in nanoseconds."""
    folders = (p for p in sys.path if p.endswith(("site-packages", "dist-packages")))
    libraries = [os.stat(path).st_mtime_ns for path in folders if os.path.isdir(path)]
    ours = [
        os.stat(os.path.join(place, name)).st_mtime_ns
        for place, _, names in os.walk(_PACKAGE, followlinks=True)
        for name in names
        if name.endswith((".py", ".lark"))
    ]
    return max(ours), max(libraries, default=0)
