"""Commands that share a Spark that stays."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ctsql.cli import main
from ctsql.warm import client
from ctsql.warm.address import folder, is_on, is_private, socket_of, state_of_code

ROOT = Path(__file__).resolve().parents[2]
ONE = "n\n1\n"


@pytest.mark.parametrize(
    ("arguments", "is_terminal", "served"),
    [
        ([], False, True),  # a script on standard input
        ([], True, False),  # a prompt
        (["-w", "run"], True, False),
        (["-w", "w", "a.sql"], True, True),
        (["-c", "SELECT 1"], True, True),
        (["--command=SELECT 1"], True, True),
        (["-cSELECT 1"], True, True),
        (["--set", "a=b", "run"], False, False),
        (["status"], True, True),
        (["status", "--watch"], True, False),
        (["run"], False, False),
        (["run", "--once"], False, True),
        (["--master", "local[1]", "a.sql"], False, False),
        (["--master=local[1]", "a.sql"], False, False),
    ],
)
def test_which_commands_are_served(arguments: list[str], is_terminal: bool, served: bool) -> None:
    """Those that end by themselves, need no terminal, and run on the default master."""
    assert client.is_served(arguments, is_terminal=is_terminal) is served


def test_the_client_knows_which_options_have_values() -> None:
    """As the command line declares them."""
    options = [o for o in main.params if o.param_type_name == "option" and not o.is_flag]  # type: ignore[attr-defined]
    assert {name for o in options for name in o.opts} == client._WITH_VALUES


@pytest.mark.parametrize(
    ("number", "status"), [(None, None), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_that_nobody_takes_ends_the_command(
    number: signal.Signals | None, status: int | None
) -> None:
    """A keeper that ends has run nothing: without a signal the command is run without it."""
    ours, theirs = socket.socketpair()

    def keeper() -> None:
        with theirs:
            got = b""
            while b'"umask"' not in got:
                got += theirs.recv(1 << 20)
            if number is not None:
                os.kill(os.getpid(), number)
                while theirs.recv(1) != bytes([number]):
                    pass

    thread = threading.Thread(target=keeper)
    thread.start()
    with ours:
        assert client._run(ours, ["-c", "SELECT 1"]) == status
    thread.join()


def test_the_socket_depends_on_what_a_jvm_depends_on(tmp_path: Path) -> None:
    """Another Java, other memory or another store's key find no keeper; a locale finds it."""
    here = socket_of(tmp_path, {"PATH": "/bin"})
    assert socket_of(tmp_path, {"PATH": "/bin", "LANG": "C"}) == here
    others = [{"PATH": "/usr/bin"}, {"PATH": "/bin", "JAVA_HOME": "/j"}]
    others += [{"PATH": "/bin", "SPARK_DRIVER_MEMORY": "1g"}, {"PATH": "/bin", "AWS_PROFILE": "b"}]
    assert len({here, *(socket_of(tmp_path, other) for other in others)}) == 5


def test_the_state_of_the_code_is_what_was_changed_last() -> None:
    """A file that is written anew changes it."""
    before = state_of_code()
    file = Path(client.__file__)
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    os.utime(file, ns=(times[0], before[0] + 1))
    try:
        assert state_of_code() == (before[0] + 1, before[1])
    finally:
        os.utime(file, ns=times)


def test_a_long_path_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A socket's path may have about a hundred bytes."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert folder() == Path("/c/ctsql/warm")
    monkeypatch.setenv("XDG_CACHE_HOME", f"/{'c' * 100}")
    assert len(str(socket_of(folder()))) < 100
    assert folder() != Path(f"/{'c' * 100}/ctsql/warm")


def test_a_folder_of_others_is_not_used(tmp_path: Path) -> None:
    """Somebody could listen there, and be given commands."""
    tmp_path.chmod(0o700)
    assert is_private(tmp_path)
    tmp_path.chmod(0o750)
    assert not is_private(tmp_path)
    assert not is_private(tmp_path / "nothing")
    (tmp_path / "link").symlink_to(tmp_path)
    assert not is_private(tmp_path / "link")


def test_it_can_be_switched_off() -> None:
    """By a variable of the environment."""
    assert is_on({})
    assert not is_on({"CTSQL_WARM": "off"})


def test_streams_that_are_closed_are_no_sockets(tmp_path: Path) -> None:
    """What is opened first would take their numbers, and get what the command prints."""
    program = """
import os, socket, sys
from ctsql.__main__ import open_standard_streams
open_standard_streams()
print("nowhere"); print("nowhere", file=sys.stderr)
with open(sys.argv[1], "w") as file:
    print(socket.socket().fileno() > 2, sys.stdin.read() == "", sys.stdout.isatty(), file=file)
"""
    told = tmp_path / "told"
    closing = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program, str(told)]
    assert subprocess.run(closing, check=False).returncode == 0
    assert told.read_text() == "True True False\n"


class Shell:
    """Commands of one user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        self.environ |= {"PYTHONPATH": str(ROOT), "CTSQL_CLASS_ARCHIVE": "off"}

    def start(self, *arguments: str, **further: str) -> "subprocess.Popen[str]":
        rows = [] if arguments == ("cool",) else ["--format", "csv"]
        return subprocess.Popen(
            [sys.executable, "-m", "ctsql", *rows, *arguments],
            cwd=self.folder,
            env={**self.environ, **further},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, text: str = "", **further: str) -> tuple[int, str, str]:
        started = self.start(*arguments, **further)
        out, messages = started.communicate(text)
        return started.returncode, out, messages

    def workers(self) -> list[int]:
        """The processes that run this user's commands."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if b"ctsql.warm_worker" in (path / "cmdline").read_bytes():
                    mine = str(self.folder).encode() in (path / "environ").read_bytes()
                    found += [int(path.name)] if mine else []
        return found


@pytest.fixture
def shell() -> Iterator[Shell]:
    with tempfile.TemporaryDirectory() as home:
        shell = Shell(Path(home))
        yield shell
        assert shell.run("cool")[0] == 0


@pytest.mark.spark
def test_commands_share_a_spark_that_stays(shell: Shell) -> None:
    """Each with its own folder, input, variables and exit status, until it is told to end."""
    first = shell.run("--keep-warm", "-q", "-c", "CREATE TABLE t (n INT); INSERT INTO t VALUES (1)")
    assert (first[0], first[1]) == (0, "")
    (socket,) = (shell.folder / "cache/ctsql/warm").glob("*.sock")
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(socket.stat().st_mode) & 0o077 == 0

    assert shell.run("-c", "SELECT n FROM t") == (0, ONE, "")
    (shell.folder / "x.csv").write_text(ONE)
    assert shell.run(text="SELECT n FROM 'x.csv';\n") == (0, ONE, "")
    assert shell.run("-w", "other", "-c", "SELECT 1 AS n")[1:] == (
        ONE,
        "made a new warehouse at other\n",
    )
    assert shell.run("-c", "SHOW TABLES", CTSQL_WAREHOUSE="other") == (
        0,
        "schema,name,kind,comment\n",
        "",
    )
    code, out, messages = shell.run("-c", "SELECT 1 AS n; SELECT bad; SELECT 2")
    assert (code, out) == (1, ONE)
    assert messages.startswith('<command>:1:23: error: column "bad" does not exist')
    assert shell.run("nothing.sql")[0] == 2

    for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        long = shell.start("-c", "SELECT count(*) FROM range(1000000000000)")
        time.sleep(1)
        long.send_signal(number)
        assert "[STATEMENT_CANCELLED]" in long.communicate()[1]
        assert long.returncode == expected
    killed = shell.start("-c", "SELECT count(*) FROM range(1000000000000)")
    time.sleep(1)
    killed.kill()
    killed.communicate()
    lost = shell.start("-c", "SELECT count(*) FROM range(1000000000000)")
    time.sleep(1)
    for worker in shell.workers():  # as the system does where memory is short
        os.kill(worker, signal.SIGKILL)
    assert lost.communicate()[1].startswith("error: the process that ran this has ended")
    assert lost.returncode == 1
    assert shell.run("-c", "SELECT n FROM t") == (0, ONE, "")  # the cores are free again
    both = [shell.start("-c", f"INSERT INTO t VALUES ({n})") for n in (2, 3)]
    assert [one.communicate()[1] for one in both] == ["INSERT 0 1\n"] * 2
    assert shell.run("-c", "SELECT count(*) AS n FROM t")[1] == "n\n3\n"

    assert shell.run("cool")[2] == "the Spark that was left running has ended\n"
    assert not socket.exists()
    assert shell.run("cool")[2] == "no Spark was left running\n"
