"""The prompt's commands as functions, its life as a program on a real terminal."""

import io
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from ctsql.catalog.errors import CtsqlError
from ctsql.console.progress import Progress
from ctsql.console.script import OutputSettings, Runner
from ctsql.shell import repl as repl_module
from ctsql.shell.commands import (
    SPELLINGS,
    Command,
    help_text,
    parse_command,
    parse_limit,
    parse_switch,
    split_ending,
    statement_of,
)
from ctsql.shell.prompt import continued, wants_more
from ctsql.shell.repl import FAILURES_SHOWN, Repl, failure_lines
from tests.frontdoors.fake_connection import FakeConnection


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (r"\d", "SHOW OBJECTS"),
        (r"\d a.b;", "DESCRIBE a.b"),
        (r"\dt", "SHOW TABLES"),
        (r"\dv", "SHOW VIEWS"),
        (r"\dm", "SHOW MATERIALIZED VIEWS"),
        (r"\dc", "SHOW CONTINUAL TASKS"),
        (r"\sc t", "SHOW CREATE t"),
        (r"\d+ t", "DESCRIBE EXTENDED t"),
        (r"\dt a*", "SHOW TABLES LIKE 'a*'"),
        (r"\dt s.", "SHOW TABLES IN s"),
        (r"\d s.a*", "SHOW OBJECTS IN s LIKE 'a*'"),
        (r"\df date*", "SHOW FUNCTIONS LIKE 'date*'"),
    ],
)
def test_a_command_is_a_query_on_the_catalog(text: str, statement: str) -> None:
    """Which anyone could have typed."""
    command = parse_command(text)
    assert command is not None
    assert statement_of(command) == statement


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("EXIT;", Command("quit")),
        ("quit", Command("quit")),
        (r"\q", Command("quit")),
        (r"\i  a file.sql ", Command("read", "a file.sql")),
        ("\\i\ta.sql", Command("read", "a.sql")),
        (r"\format csv", Command("format", "csv")),
        (r"\?", Command("help")),
        ("SELECT 1;", None),
        (".5 + 1;", None),
    ],
)
def test_commands_are_told_from_statements(text: str, command: Command | None) -> None:
    """A number that begins with a point is SQL."""
    assert parse_command(text) == command


@pytest.mark.parametrize("text", [r"\nope", r"\tabels", r"\i", r"\r x", r"\sc"])
def test_a_wrong_command_gets_a_hint(text: str) -> None:
    """Its name or its argument is at fault."""
    with pytest.raises(CtsqlError) as caught:
        parse_command(text)
    assert caught.value.hint


def test_switches_and_limits() -> None:
    """Without a word a switch turns over; a limit of 0 is none."""
    assert [parse_switch(True, word) for word in ("", "on", "OFF")] == [False, True, False]
    assert [parse_limit(text) for text in ("5", "0")] == [5, None]
    for wrong in ("", "x", "-1"):
        with pytest.raises(CtsqlError):
            parse_limit(wrong)


def test_the_help_names_every_command() -> None:
    """In each of its spellings."""
    assert all(spelling in help_text() for spelling in SPELLINGS)


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("SELECT 1", True),
        ("SELECT 1;", False),
        (r"\d", False),
        ("exit", False),
        ("", False),
    ],
)
def test_enter_goes_on_until_the_statement_is_complete(text: str, more: bool) -> None:
    """As a text of statements is; a command is complete at once."""
    assert wants_more(text) is more


@pytest.mark.parametrize(
    ("text", "line", "prompt"),
    [
        ("SELECT 1", 1, "    -> "),
        ("SELECT (1,\n2)", 1, "    (> "),
        ("SELECT (1,\n2)", 2, "    -> "),
        ("SELECT 'a", 1, "    '> "),
        ("SELECT '(", 1, "    '> "),
        ("SELECT `a", 1, "    `> "),
        ("/* a", 1, "    *> "),
    ],
)
def test_the_prompt_says_what_is_open(text: str, line: int, prompt: str) -> None:
    """Up to the line's begin: what comes later does not change it."""
    assert continued(text, line) == prompt


@pytest.mark.parametrize("text", ["help", "HELP;", "?", " ? "])
def test_help_is_a_command(text: str, tmp_path: Path) -> None:
    """A newcomer's first words."""
    assert not wants_more(text)
    assert r"\timing" in fed(tmp_path, text)[1]


def fed(tmp_path: Path, *lines: str) -> tuple[str, str]:
    """What typing the lines prints, on stdout and on stderr."""

    def type_all(repl: Repl) -> None:
        for line in lines:
            repl.feed(line)

    return _printed(tmp_path, type_all)


def _printed(tmp_path: Path, use: Callable[[Repl], object]) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    settings = OutputSettings(
        out=out, messages=Console(file=err, width=200), progress=Progress(err, enabled=False)
    )
    use(Repl(Runner(FakeConnection(str(tmp_path / "warehouse")), settings)))
    return out.getvalue(), err.getvalue()


def test_nothing_a_statement_does_ends_the_prompt(tmp_path: Path) -> None:
    """Errors, defects and missing files are said, and the next statement runs."""
    out, err = fed(tmp_path, "BAD;", "DEFECT;", r"\i /no/such", r"\nope", "SELECT 1;")
    assert out.endswith("(1 row)\n")
    nobody = "~no-such-user/a.sql"
    out, other = fed(tmp_path, rf"\i {nobody}", rf"\o {nobody}", rf"\g {nobody}", "SELECT 1;")
    assert out.endswith("(1 row)\n")
    assert f"{nobody} cannot be read" in other
    assert f"{nobody} cannot be written" in other
    for said in ("UNKNOWN_RELATION", "ZeroDivisionError", "/no/such", r"\nope is not a command"):
        assert said in err


@pytest.mark.parametrize(
    ("waited", "options", "quiet", "told"),
    [
        (True, "-Xa", False, 1),
        (False, "-Xa", False, 0),
        (True, "-XX:SharedArchiveFile=/a.jsa", False, 0),
        (True, "-Xa", True, 0),
    ],
)
def test_a_slow_start_names_what_makes_it_faster(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    waited: bool,
    options: str,
    quiet: bool,
    told: int,
) -> None:
    """Once, where Spark had no archive of classes and somebody waited for it; never if quiet."""
    if waited:
        monkeypatch.setattr(repl_module, "SLOW_START_SECONDS", 0.0)

    def type_two(repl: Repl) -> None:
        repl.settings.quiet = quiet
        repl.runner.connection.java_options = options  # type: ignore[attr-defined]
        for _ in range(2):
            repl.feed("SELECT 1;")

    monkeypatch.delenv("SPARK_HOME")
    assert _printed(tmp_path, type_two)[1].count("`ctsql warm-up` makes starts faster") == told


def test_no_editor_ends_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not there, or that one leaves with an error, as by ``:cq``."""
    for editor in ("/no/such/editor", "false"):
        monkeypatch.setenv("EDITOR", editor)
        monkeypatch.setenv("VISUAL", editor)
        out, err = fed(tmp_path, r"SELECT 1 \e", rf"\e {tmp_path}/a.sql", "SELECT 1;")
        assert err.count("the editor ended with an error") == 2
        assert out.endswith("(1 row)\n")


def test_a_file_is_run_as_it_is(tmp_path: Path) -> None:
    """A text in a file may have signs that end lines elsewhere."""
    script, ran = tmp_path / "a.sql", []
    script.write_text("INSERT '\u2028\x85\x0c';\nSELECT\n1;\n")

    def use(repl: Repl) -> None:
        repl.feed(rf"\i {script}")
        connection = repl.runner.connection
        assert isinstance(connection, FakeConnection)
        ran.extend(connection.ran)

    _printed(tmp_path, use)
    assert ran == ["INSERT '\u2028\x85\x0c'", "SELECT\n1"]


def test_the_settings_of_the_prompt_hold(tmp_path: Path) -> None:
    """Expanded display, format, limit, timing, output file, script."""
    script, rows = tmp_path / "a.sql", tmp_path / "rows"
    script.write_text("SELECT 1; INSERT x;")
    assert fed(tmp_path, r"\x", "SELECT 1;")[0].startswith("-[ row 1 ]-\n")
    assert fed(tmp_path, r"\format csv", "SELECT 1;")[0] == "one\n1\n"
    assert "the first 3 rows" in fed(tmp_path, r"\set limit 3", "BIG;")[0]
    assert "the first 1000 rows" in fed(tmp_path, "BIG;")[0]
    assert "Time: " in fed(tmp_path, r"\timing", "SELECT 1;")[1]
    assert "INSERT 0 3" in fed(tmp_path, rf"\i {script}")[1]
    out, _ = fed(tmp_path, rf"\o {rows}", "SELECT 1;", r"\o", "SELECT 1;")
    assert rows.read_text() == out
    fed(tmp_path, rf"\o {rows}", "BAD;", r"\o")  # nothing but an error
    fed(tmp_path, rf"SELECT 1; BAD \g {rows}")
    assert rows.read_text() == out
    assert sorted(p.name for p in tmp_path.iterdir() if "rows" in p.name) == ["rows"]
    out, _ = fed(tmp_path, r"\set limit 3", rf"\o {rows}", "BIG;", r"\o", "BIG;")
    assert "the first 3 rows" in out
    assert "there are more" not in rows.read_text()


@pytest.mark.parametrize(
    ("text", "split"),
    [
        (r"SELECT 1 \g", ("SELECT 1", Command("run"))),
        ("SELECT 1\n\\gx", ("SELECT 1", Command("run_expanded"))),
        (r"SELECT 1; \watch 5", ("SELECT 1;", Command("watch", "5"))),
        ("SELECT 'a \\r", ("SELECT 'a", Command("reset"))),
        (r"SELECT 'a \g", None),
        (r"SELECT '\g'", None),
        (r"SELECT 1 \d", None),
        ("SELECT 1", None),
    ],
)
def test_a_command_may_end_a_text(text: str, split: tuple[str, Command] | None) -> None:
    r"""Unless it is a part of a string; ``\r`` leaves even an open one."""
    assert split_ending(text) == split
    assert wants_more(text) is (split is None)


def test_a_text_is_run_again(tmp_path: Path) -> None:
    r"""``\g`` with and without a file, ``\gx``, ``\p``; ``\r`` runs nothing."""
    rows = tmp_path / "rows"
    out, err = fed(tmp_path, r"SELECT 1 \gx", rf"\g {rows}", r"\p", r"INSERT x \r")
    assert out.startswith("-[ row 1 ]-")
    assert rows.read_text().splitlines()[0].strip() == "one"
    assert err.count("SELECT 1") == 1
    assert "INSERT" not in err
    for to in ("o", "g"):
        err = fed(tmp_path, "SELECT 1;", rf"\{to} {tmp_path}/warehouse/_ctsql/rows")[1]
        assert "a file in a folder of ctsql or Delta is not supported" in err
    assert not (tmp_path / "warehouse").exists()
    assert "no statement was run" in fed(tmp_path, r"\g")[1]
    for seconds in ("soon", "-1", "0", "nan", "inf"):
        assert 'option "watch"' in fed(tmp_path, rf"SELECT 1 \watch {seconds}")[1]


def test_rows_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r"""``\\copy`` takes what COPY takes, and what is typed up to ``\\.``."""
    monkeypatch.setattr("sys.stdin", io.StringIO("k\n1\n\\.\nSELECT 1;\n"))
    monkeypatch.setattr(FakeConnection, "copied", [])
    _, err = fed(tmp_path, r"\copy t FROM STDIN", r"\copy t FROM 'none.csv'", r"\copy t")
    assert FakeConnection.copied == [b"k\n1\n"]
    assert err.count("COPY 2") == 2
    assert r"\copy takes what COPY takes" in err


def test_variables_and_pset(tmp_path: Path) -> None:
    r"""``\set`` for ``:name``, ``\unset``, ``\pset``; what is wrong has a hint."""
    out, err = fed(tmp_path, r"\set word SELECT", ":word 1;", r"\set", r"\unset word", ":word 1;")
    assert "(1 row)" in out
    assert "word = SELECT" in err
    assert "SYNTAX" in err or ":WORD 1" in err  # it is no statement any more
    out, err = fed(tmp_path, r"\pset null -", "VALUES 1;", r"\pset nul x")
    assert " | -" in out
    assert 'Did you mean "null"?' in err
    assert "It is not set." in fed(tmp_path, r"\unset nothing")[1]
    assert "cannot be read" in fed(tmp_path, r"\i /no/such.sql")[1]


def test_the_file_of_settings_is_run_first(tmp_path: Path) -> None:
    """Its lines are taken as if they were typed; statements may have several."""
    rc_file = tmp_path / ".ctsqlrc"
    rc_file.write_text("\\x on\n\nSELECT\n1;\n\\q\n")
    out, _ = _printed(tmp_path, lambda repl: repl.run(rc_file=rc_file))
    assert out.startswith("-[ row 1 ]-")


def test_a_file_of_settings_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """And the prompt comes all the same."""
    rc_file = tmp_path / ".ctsqlrc"
    rc_file.write_bytes(b"\\x on\n-- \xff\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctsql.shell.repl.prompt_session", lambda _: _Leaving())
        _, err = _printed(tmp_path, lambda repl: repl.run(rc_file=rc_file))
    assert f"{rc_file} is not UTF-8 text" in err


class _Leaving:
    """A session in which the first thing typed is Ctrl-D."""

    def prompt(self, _text: str, default: str = "") -> str:
        raise EOFError


class Terminal:
    """The program in tmux: what is typed, and what the screen shows."""

    def __init__(self, tmp_path: Path, **environment: str) -> None:
        self._socket = str(tmp_path / f"tmux-{uuid.uuid4().hex[:8]}")
        fake = Path(__file__).with_name("fake_connection.py")
        root = fake.parents[2]
        settings = {"PYTHONPATH": str(root), "XDG_STATE_HOME": str(tmp_path), **environment}
        settings["HOME"] = str(tmp_path)  # where no .ctsqlrc is
        command = " ".join(
            ["env", *(f"{k}={v}" for k, v in settings.items()), sys.executable, str(fake)]
        )
        self._tmux("new-session", "-d", "-x", "100", "-y", "40", f"{command}; echo LEFT $?; cat")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", os.devnull, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def type(self, *keys: str) -> None:
        # tmux takes a semicolon at the end of an argument for its own.
        self._tmux("send-keys", *(key[:-1] + "\\;" if key.endswith(";") else key for key in keys))

    def wait_for(self, text: str, seconds: float = 60) -> str:
        until = time.monotonic() + seconds
        while text not in (screen := self._tmux("capture-pane", "-p")):
            assert time.monotonic() < until, f"{text!r} did not come:\n{screen}"
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_a_day_at_the_prompt(terminals: list[Terminal], tmp_path: Path) -> None:
    """Typed before Spark is up, over several lines, completed, cancelled, cleared, left."""
    terminal = Terminal(tmp_path, FAKE_START="3")
    terminals.append(terminal)
    terminal.wait_for("ctsql>")
    terminal.type("SELECT 1", "Enter")
    terminal.wait_for("    ->")
    terminal.type(";", "Enter")
    terminal.wait_for("starting Spark...")
    screen = terminal.wait_for("(1 row)\nctsql>")  # Tab completes at a prompt only
    assert "starting Spark" not in screen
    terminal.type("SELECT * FROM ord", "Tab")
    terminal.wait_for("FROM orders")
    terminal.type(";", "Enter")
    terminal.wait_for("FROM orders;")
    terminal.type("SLOW;", "Enter")
    terminal.wait_for("running")
    terminal.type("C-c")
    terminal.wait_for("STATEMENT_CANCELLED")
    terminal.type("half a line", "C-c")
    terminal.type("INSERT x;", "Enter")
    terminal.wait_for("INSERT 0 3\nctsql>")  # Ctrl-D leaves at a prompt only
    terminal.type("C-d")
    terminal.wait_for("LEFT 0")


def test_a_start_that_fails_on_a_dumb_terminal(terminals: list[Terminal], tmp_path: Path) -> None:
    """The reason is shown, and the prompt stays; without colours and without a spinner."""
    terminal = Terminal(tmp_path, FAKE_NO_JAVA="1", TERM="dumb")
    terminals.append(terminal)
    terminal.wait_for("ctsql>")
    terminal.type("SELECT 1;", "Enter")
    terminal.wait_for("JAVA_NOT_FOUND")
    terminal.type("exit", "Enter")
    terminal.wait_for("LEFT 0")


def test_a_few_failures_are_said() -> None:
    """One line each, cut where it is long; the others are counted."""
    row = {"kind": "continual task", "schema": "s", "name": "t", "error_message": "x" * 500}
    states = ["failed", "behind", *["failed"] * (FAILURES_SHOWN + 1)]
    lines = failure_lines([{**row, "state": state} for state in states])
    assert len(lines) == FAILURES_SHOWN + 1
    assert lines[0].endswith("xxx...")
    assert lines[-1].startswith("2 more")
    assert failure_lines([{**row, "state": "behind"}]) == []


def test_leaving_does_not_wait_for_spark(terminals: list[Terminal], tmp_path: Path) -> None:
    """Nor does a statement that was given up while it waited; what has failed is said before."""
    terminal = Terminal(tmp_path, FAKE_FAILED="1", FAKE_START="60")
    terminals.append(terminal)
    terminal.wait_for("continual task default.t has failed: division by zero")
    terminal.wait_for("\nctsql>\n")
    terminal.type("SELECT 1;", "Enter")
    terminal.wait_for("starting Spark...")
    terminal.type("C-c")
    terminal.wait_for("cancelled")
    terminal.type(r"\q", "Enter")
    terminal.wait_for("LEFT 0")
