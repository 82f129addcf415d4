"""The command line: exit codes and which stream gets what."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctsql.cli.main import main
from tests.frontdoors.fake_connection import FakeConnection

FAKE = [sys.executable, str(Path(__file__).with_name("fake_connection.py"))]
ROOT = Path(__file__).resolve().parents[2]
ONE = " one\n-----\n   1\n(1 row)\n"


def invoke(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(main, arguments, input=text, obj=FakeConnection)


def spawn(
    *arguments: str, stdin: int | None = subprocess.DEVNULL, **environment: str
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*FAKE, *arguments],
        stdin=stdin,
        stdout=-1,
        stderr=-1,
        cwd=ROOT,
        env={"PYTHONPATH": ".", **environment},
    )


def test_results_go_to_stdout_and_statuses_to_stderr() -> None:
    """So that a pipe gets rows only."""
    ran = invoke("-c", "INSERT x; SELECT 1")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, ONE, "INSERT 0 3\n")
    assert invoke("-q", "-c", "INSERT x").stderr == ""


_CLOSED = """\
error: a file may not be written or read [STORAGE_ERROR]
DETAIL: <stdout>: it is closed
"""
_FULL = """\
error: the disk is full [STORAGE_ERROR]
DETAIL: %s: No space left on device
HINT: Free some space and run it again.
"""


@pytest.mark.parametrize(
    ("rest", "code", "message"),
    [
        ("<&-", 0, ""),  # nothing to read, so nothing is run
        ("-c 'INSERT x' >&-", 0, "INSERT 0 3\n"),
        ("-c 'SELECT 1' >&-", 1, _CLOSED),
        ("status >&-", 1, _CLOSED),
        ("-c BAD 2>&-", 1, ""),
        ("-o /dev/full -c 'SELECT 1'", 1, _FULL % "/dev/full"),
        ("-o /dev/full -c BIG", 1, _FULL % "/dev/full"),
        ("-c 'SELECT 1' >/dev/full", 1, _FULL % "<stdout>"),
    ],
)
def test_streams_that_are_closed_or_full(rest: str, code: int, message: str) -> None:
    """Rows that go nowhere are an error, and no trace of Python's is shown."""
    command = f"{shlex.join(FAKE)} {rest}"
    ran = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env={"PYTHONPATH": "."}, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (code, b"")
    assert ran.stderr.decode() == message
    assert b"Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ([b"-c", b"SELECT '\xff'"], "--command"),
        ([b"-c", b"SELECT 1", b"-c", b"\xc3"], "--command"),
        ([b"-w", b"\xff", b"-c", b"SELECT 1"], "--warehouse"),
        ([b"--master", b"\x80", b"status"], "--master"),
        ([b"--set", b"a=\xff", b"-c", b"SELECT 1"], "--set"),
    ],
    ids=range(5),
)
def test_arguments_that_are_not_utf_8(arguments: list[bytes], option: str) -> None:
    """The option is named, and nothing runs."""
    ran = invoke(*map(os.fsdecode, arguments))
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"Error: {option} is not text. U+DC" in ran.stderr


def test_rows_are_written_as_utf_8() -> None:
    """In every locale: a pipe gets all letters."""
    ran = spawn("--format", "csv", "-c", "LETTERS", PYTHONIOENCODING="ascii")
    out, _ = ran.communicate(timeout=60)
    assert (ran.returncode, out.decode()) == (0, "s\né ✓\n")


def test_a_file_of_results_that_cannot_be_written_is_bad_usage(tmp_path: Path) -> None:
    """Told before the tests run, and not when all have."""
    (tmp_path / "a.sql").write_text("TEST 'a' EXPECT (SELECT 1) VALUES (1)")
    ran = invoke("test", str(tmp_path), "--junit", str(tmp_path / "none" / "x.xml"))
    assert ran.exit_code == 2
    assert "x.xml: No such file or directory." in ran.stderr


def test_a_failed_statement_ends_with_1_and_says_what_was_not_run() -> None:
    """The statements before it have run, those after it not, nor later sources."""
    ran = invoke("-c", "SELECT 1; BAD; SELECT 2; SELECT 3", "-c", "SELECT 4")
    assert (ran.exit_code, ran.stdout) == (1, ONE)
    assert ran.stderr.splitlines() == [
        '<command>:1:11: error: table "bad" does not exist [UNKNOWN_RELATION]',
        " 1 | SELECT 1; BAD; SELECT 2; SELECT 3",
        "   |           ^^^",
        "HINT: Mend it.",
        "stopped; 2 more statements were not run",
        "<command 2> was not run",
    ]


def test_a_text_that_cannot_be_split_runs_nothing() -> None:
    """An open string is seen before the first statement runs."""
    ran = invoke("-c", "SELECT 1; SELECT 'open")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "SYNTAX_ERROR" in ran.stderr


def test_standard_input_and_files_are_run_in_order(tmp_path: Path) -> None:
    """A dash is standard input; a byte order mark is no part of the text."""
    path = tmp_path / "a.sql"
    path.write_text("\ufeffSELECT 1;", "utf-8")
    assert invoke(text="SELECT 1").stdout == ONE
    assert invoke(str(path), "-", text="SELECT 1").stdout == ONE * 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.sql"],
        ["--no-such-option"],
        ["--format", "xml"],
        ["-c", "SELECT 1", "a.sql"],
        ["--once"],
        ["run", "a.sql"],
        ["--interval", "1", "-c", "SELECT 1"],
        ["run", "--interval", "0"],
        ["run", "--metrics", "localhost:"],
        ["--metrics", "9464", "-c", "SELECT 1"],
        ["run", "--listen", "8480"],
        ["run", "--serve", "localhost:"],
        ["serve", "--listen", "x"],
        ["serve", "--serve"],
        ["serve", "--read-write"],
        ["serve", "--postgres", "localhost"],
        ["serve", "a.sql"],
        ["--serve", "8480", "-c", "SELECT 1"],
        ["status", "--interval", "1"],
        ["--json", "-c", "SELECT 1"],
        ["-c", "SELECT 1", "-o", "/no/such/folder/x"],
        ["plan", ""],
        ["plan", "file://host/folder"],
        *(
            [*arguments, *more]
            for location in ("", " ", "file://host/w", "file:", "file://host")
            for arguments, more in (
                (["-w", location], ["-c", "SELECT 1"]),
                (["-o", location], ["-c", "SELECT 1"]),
                (["run", "-w", location], []),
                ([location], []),
                (["dump", location], []),
                (["test", location], []),
                (["apply", location], []),
                (["apply", "x", "--plan", location], []),
                (["test", "x", "--junit", location], []),
            )
        ),
    ],
)
def test_bad_usage(arguments: list[str]) -> None:
    """It ends with 2, and nothing is on stdout; a plan ends with 1, as its 2 reports a change."""
    ran = invoke(*arguments)
    assert (ran.exit_code, ran.stdout) == (1 if arguments[0] == "plan" else 2, "")
    assert "rror" in ran.stderr


@pytest.mark.parametrize("text", ["", "x", "1:2:x", ":80", "70000", "host:"])
def test_what_is_no_address_is_bad_usage(text: str) -> None:
    """The option is named, and what it takes."""
    ran = invoke("run", "--metrics", text)
    assert ran.exit_code == 2
    assert f"--metrics takes [HOST:]PORT, as 9464; {text!r} is none." in ran.stderr


def test_a_file_that_is_not_text_is_bad_usage(tmp_path: Path) -> None:
    """With the byte that is not."""
    path = tmp_path / "a.sql"
    path.write_bytes(b"SELECT '\xff'")
    ran = invoke(str(path))
    assert ran.exit_code == 2
    assert "not UTF-8 text (byte 8)" in ran.stderr


@pytest.mark.parametrize("command", [["-c", "SELECT 1"], ["plan", "folder"]])
def test_no_output_file_in_the_warehouse(tmp_path: Path, command: list[str]) -> None:
    """What is there is not touched, by a link neither, nor a log elsewhere."""
    log = tmp_path / "w" / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / "0.json").write_text("{}")
    (tmp_path / "link").symlink_to(log / "0.json")
    for warehouse, path in (
        ("w", log / "0.json"),
        ("w", tmp_path / "link"),
        ("w", tmp_path / "w" / "new.csv"),
        ("other", log / "0.json"),
        ("other", tmp_path / "link"),
    ):
        ran = invoke("-w", str(tmp_path / warehouse), "-o", str(path), *command)
        assert (ran.exit_code, ran.stdout) == (1 if command[0] == "plan" else 2, "")
        assert "a folder of ctsql or Delta" in ran.stderr
    assert (log / "0.json").read_text() == "{}"
    assert not (tmp_path / "w" / "new.csv").exists()


def test_rows_go_to_the_output_file(tmp_path: Path) -> None:
    """Nothing is on stdout then."""
    path = tmp_path / "rows.csv"
    ran = invoke("-c", "SELECT 1; VALUES", "--format", "csv", "-o", str(path))
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert path.read_text() == "one\n1\nk,name,d\n1,a,1.50\n22,,\n"


def test_a_defect_of_ours_is_a_failed_statement() -> None:
    """With the trace when asked for."""
    ran = invoke("-c", "DEFECT")
    assert ran.exit_code == 1
    assert "ZeroDivisionError: of ours" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Traceback" in invoke("--debug", "-c", "DEFECT").stderr


def test_echo_version_and_help() -> None:
    """None of them needs Spark."""
    assert invoke("--echo", "-c", "SELECT 1").stderr == "SELECT 1\n"
    assert invoke("--version").stdout.startswith("ctsql ")
    assert "Usage:" in invoke("--help").stdout


@pytest.mark.parametrize("command", [name for name in main.commands if name])
def test_each_command_has_options_of_its_own(command: str) -> None:
    """Its help lists them; an option of another command is bad usage."""
    options = {o for p in main.commands[command].params for o in p.opts if o.startswith("--")}
    told = invoke(command, "--help")
    assert told.exit_code == 0
    assert told.stdout.startswith(f"Usage: ctsql {command} [OPTIONS]")
    assert told.stdout == invoke("--quiet", command, "-h").stdout
    assert f"  {command} " in invoke("--help").stdout
    for other in ("--echo", "--once", "--junit", "--prune", "--remove"):
        assert (other in told.stdout) == (other in options)
        if other not in options:
            refused = invoke(command, other)
            assert refused.exit_code == (1 if command == "plan" else 2)
            assert other in refused.stderr


@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 5])
def test_options_stand_before_a_command_or_behind_it(before: int) -> None:
    """Also such as have a value, which is no name of a command."""
    options = ["--json", "-w", "status", "--once", "--interval=0.5"]
    ran = invoke(*options[:before], "run", *options[before:])
    wanted = 2 if before == 2 else 0  # there the warehouse is "run", and the command "status"
    assert (ran.exit_code, '"seconds": 0.5' in ran.stdout) == (wanted, not wanted)


def test_variables_and_commands_of_the_prompt() -> None:
    r"""``--set`` for ``:name``, ``-c '\d'``; what makes no sense is bad usage."""
    ran = invoke("--set", "what=SELECT", "-c", ":what 1", "--echo")
    assert (ran.exit_code, ran.stderr) == (0, "SELECT 1\n")
    assert invoke("--echo", "-c", r"\dt").stderr.splitlines()[0] == "SHOW TABLES"
    for wrong, word in (
        (["--set", "nothing", "-c", "SELECT 1"], "NAME=VALUE"),
        (["-c", r"\timing"], "for the prompt only"),
        (["-c", r"\nope"], "is not a command"),
        (["statu"], 'Did you mean "status"?'),
    ):
        ran = invoke(*wrong)
        assert (ran.exit_code, word in ran.stderr) == (2, True), ran.stderr


def test_a_current_folder_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command that needs a warehouse gets as far as Java, which does not start there."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for arguments in (["status"], ["-w", str(tmp_path), "-c", "SELECT 1"]):
        ran = invoke(*arguments)
        assert (ran.exit_code, "The current folder was deleted" in ran.stderr) == (2, True)
    assert invoke("--version").exit_code == 0
    monkeypatch.chdir(tmp_path)


def test_run_once_and_status() -> None:
    """``run`` tells what it does on stderr, or as JSON on stdout; ``status`` prints rows."""
    ran = invoke("run", "--once")
    said = "1970-01-01T00:00:00.000Z T=1 (1970-01-01T00:00:00.001Z) up to date in 0.00 s\n"
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "", said)
    ran = invoke("run", "--once", "--json", "--interval", "0.25")
    assert ran.stderr == ""
    assert json.loads(ran.stdout) == {
        "at": "1970-01-01T00:00:00.000Z", "level": "info", "event": "reached", "t": 1,
        "seconds": 0.25,
    }  # fmt: skip
    assert invoke("run", "--once", "-q").stderr == ""
    assert "up to date" in invoke("status").stdout
    assert json.loads(invoke("status", "--json").stdout)["state"] == "up to date"


def test_metrics_and_status_page_are_served_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the printed addresses, with a token that is printed once; SIGTERM is how it ends.

    An address that is taken is an error before anything runs.
    """
    monkeypatch.delenv("CTSQL_SERVE_TOKEN", raising=False)
    process = spawn("run", "--metrics", "0", "--serve", "0.0.0.0:0")
    assert process.stderr is not None
    messages = ""
    while "T=1" not in messages:
        messages += process.stderr.readline().decode()
    metrics, page = re.findall(r"http://\S+", messages)
    with urllib.request.urlopen(metrics, timeout=20) as answer:
        text = answer.read().decode()
    assert "ctsql_looks_total 0.0" in text
    assert "process_resident_memory_bytes" in text
    (token,) = re.findall(r"\S{32,}", messages.replace(page, "").replace(metrics, ""))
    assert "CTSQL_SERVE_TOKEN" in messages
    script = f"{page.replace('0.0.0.0', '127.0.0.1')}static/page.js"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(script, timeout=20)
    given = urllib.request.Request(script, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(given, timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/javascript")
    port = metrics.split(":")[2].split("/")[0]
    ran = invoke("run", "--once", "--metrics", port)
    assert (ran.exit_code, "INVALID_USAGE" in ran.stderr) == (1, True)
    assert f"127.0.0.1:{port}" in ran.stderr
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=20)
    assert process.returncode == 0
    assert token.encode() not in rest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_run_at_once(number: signal.Signals) -> None:
    """Whatever it is working on."""
    process = spawn("run", "--workers", "2", FAKE_STUCK="1")
    assert process.stderr is not None
    assert b"T=1" in process.stderr.readline()
    process.send_signal(number)
    time.sleep(1.0)  # two signals at once are one
    assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (128 + number, b"stopped at once\n")


def test_an_interrupt_cancels_the_statement_and_ends_with_130() -> None:
    """The rest is not run."""
    process = spawn("-c", "INSERT x; SLOW; SELECT 1")
    assert process.stderr is not None
    assert process.stderr.readline() == b"INSERT 0 3\n"
    time.sleep(1.5)  # the statement has no output to wait for
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert b"STATEMENT_CANCELLED" in err
    assert b"1 more statement was not run" in err


LIVE = {
    "jsonl": '{"t": 7, "diff": 1, "name": "a"}\n{"t": 7, "diff": 2, "name": null}\n'
    '{"t": 9, "diff": -1, "name": "a|b"}\n',
    "csv": "t,diff,name\n7,1,a\n7,2,\n9,-1,a|b\n",
    "json": '[\n  {"t": 7, "diff": 1, "name": "a"},\n  {"t": 7, "diff": 2, "name": null},\n'
    '  {"t": 9, "diff": -1, "name": "a|b"}\n]\n',
    "table": "             t | diff | name\n---------------+------+--------------\n"
    "             7 |    1 | a\n             7 |    2 | NULL\n             9 |   -1 | a|b\n",
}


@pytest.mark.parametrize("name", LIVE)
def test_what_goes_on_is_written_as_it_comes(name: str) -> None:
    """In every format; here it ends by itself, and the next statement runs."""
    ran = invoke("--format", name, "-c", "SUBSCRIBE UP; INSERT x")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, LIVE[name], "INSERT 0 3\n")


def test_what_goes_on_as_arrow(tmp_path: Path) -> None:
    """One stream, a batch for each T."""
    import pyarrow as pa

    path = tmp_path / "changes.arrow"
    assert invoke("--format", "arrow", "-o", str(path), "-c", "SUBSCRIBE UP").exit_code == 0
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    assert table.column("diff").to_pylist() == [1, 2, -1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_what_goes_on_without_failure(number: signal.Signals) -> None:
    """Being stopped is how it ends; everything that came was written before."""
    process = spawn("--format", "jsonl", "-c", "SUBSCRIBE x; SELECT 1")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert "".join(line.decode() for line in lines) == LIVE["jsonl"]
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, b"")
    assert b"1 more statement was not run" in err


def test_a_reader_that_leaves_is_no_error() -> None:
    """Nothing is said about it."""
    process = spawn("--format", "csv", "-c", "BIG")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_rows_are_copied_from_the_standard_input(tmp_path: Path) -> None:
    r"""``-c '\copy ... FROM STDIN'`` reads it to its end; with a file it reads that."""
    rows = 'k,name\r\n1,"a\r\nb"\r\n2,é\r\n'
    ran = invoke("-c", r"\copy t FROM STDIN (HEADER true)", "-c", "SELECT 1", text=rows)
    assert (ran.exit_code, ran.stdout) == (0, ONE)
    (copied,) = FakeConnection.copied
    assert copied == rows.encode()
    assert invoke("-c", r"\copy t FROM 'file.csv'").exit_code == 0
    wrong = invoke("-c", r"\copy t FROM STDOUT", "-c", "SELECT 1")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "STDIN" in wrong.stderr
    assert "<command 2> was not run" in wrong.stderr


def test_a_hook_is_called_with_each_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module is found in the current folder; what is none is bad usage, and nothing runs."""
    (tmp_path / "my_hook.py").write_text(
        "def send(event):\n    print('hook', event.kind.value)\n\n"
        "def fail(event):\n    raise ValueError('of the hook')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sent = invoke("run", "--once", "--on-event", "my_hook:send")
    assert (sent.exit_code, sent.stdout) == (0, "hook reached\n")
    failed = invoke("run", "--once", "--on-event", "my_hook:fail")
    assert failed.exit_code == 1
    assert "of the hook" in failed.stderr
    for wrong in ("os", "os:none", "os:name", "none:send", ":send", ""):
        refused = invoke("run", "--once", "--on-event", wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "MODULE:FUNCTION" in refused.stderr
