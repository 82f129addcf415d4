"""``status --watch``: the screen as lines for any size, and the keys."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.monitoring.objects import LagRow
from ctsql.runtime.monitoring.refreshes import Refresh
from ctsql.runtime.monitoring.watch import WatchedObject, in_order
from ctsql.watch_command import Watch
from ctsql.watch_screen import DETAIL_LINES, Line, Screen, draw, duration

REFRESH = Refresh(
    object="m", output="m", kind="materialized view", t=5, at=datetime.fromtimestamp(1, UTC),
    version=3, strategy="incremental", reason=None, detail=None, changed=(), rows_inserted=4,
    rows_deleted=None, files_written=1, bytes_written=10, rows_read=7, bytes_read=70, jobs=2,
    seconds=1.5, phases={}, delay_seconds=0.5, times=1, process=None,
)  # fmt: skip


def made(
    name: str, state: str = "up to date", lag: float = 0.0, error: str | None = None
) -> WatchedObject:
    row = LagRow(
        object=name, kind="materialized view", state=state, upper=6, complete_through=5,
        lag_seconds=lag, lag_versions=0, error_condition=None, error_t=5 if error else None,
        error_message=error,
    )  # fmt: skip
    last = tuple(replace(REFRESH, rows_inserted=n) for n in (0, 3, 9))
    return WatchedObject(row, last, "ALTER CONTINUAL TASK x RETRY" if state == "failed" else None)


MANY = [made(f"view_{n:03}") for n in range(200)]


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for _, text in line) for line in lines]


def test_a_screen_of_80_columns() -> None:
    """Failed ones come first; the chosen one is told below."""
    rows = in_order(
        [made("b", "behind", 75.0), made("a"), made("f", "failed", 3.0, "x\nis no INT")]
    )
    shown = texts(draw(Screen(rows), 80, 12, 0))
    assert shown == [
        "00:00:00 UTC  1 failed, 1 behind, 1 up to date",
        "object                           state           lag          rows       seconds",
        "›!f                              failed        3.0 s           ▁▃█           ███",
        " >b                              behind       1m 15s           ▁▃█           ███",
        "  a                              up to date                    ▁▃█           ███",
        "",
        "-" * 80,
        "T = 5: x\\nis no INT",
        "last: 1970-01-01 00:00:01 incremental, +9 -? rows, 1.50 s",
        "ALTER CONTINUAL TASK x RETRY",
        "",
        "arrows, PgUp, PgDn, Home, End move   q leaves",
    ]


@given(
    names=st.lists(st.text(min_size=1), max_size=30, unique=True),
    width=st.integers(20, 200),
    height=st.integers(3, 60),
    moves=st.lists(st.integers(-50, 50), max_size=5),
    plain=st.booleans(),
)
def test_any_screen_fits_and_shows_the_chosen_one(
    names: list[str], width: int, height: int, moves: list[int], plain: bool
) -> None:
    """No line is too wide, there are as many as the terminal has, and the chosen one is there."""
    screen = Screen(plain=plain).with_rows([made(name) for name in names], height)
    for by in moves:
        screen = screen.move_cursor(by, height)
    lines = draw(screen, width, height, 0)
    assert len(lines) == min(height, max(height - DETAIL_LINES - 2, 1) + DETAIL_LINES + 2)
    assert all(cell_len(text) <= width for text in texts(lines))
    if names and height > DETAIL_LINES + 3:
        assert sum(style == "chosen" for line in lines for style, _ in line) == 1
    if plain and "".join(names).isascii():
        assert "".join(texts(lines)).isascii()


def test_two_hundred_objects_scroll() -> None:
    screen = Screen().with_rows(MANY, 24).move_cursor(150, 24)
    shown = texts(draw(screen, 80, 24, 0))
    assert any(line.startswith("›") and "view_150" in line for line in shown)
    assert not any("view_000" in line for line in shown)
    again = screen.with_rows([made("a_new", "failed"), *MANY], 24)
    assert again.rows[again.cursor].lag.object == "view_150"
    assert Screen().with_rows([made("a_new", "failed"), *MANY], 24).cursor == 0


def test_durations_have_eight_characters_at_most() -> None:
    assert all(len(duration(10.0**n)) <= 8 for n in range(-4, 9))


def _watch(look: Callable[[], list[WatchedObject]], keys: str, ready: threading.Event) -> Watch:
    """Run it with keys that come once a look has been made; ends with q."""
    with create_pipe_input() as pipe:
        watch = Watch(look, 0.01, input=pipe, output=DummyOutput())

        def type_keys() -> None:
            assert ready.wait(20)
            pipe.send_text(keys)

        typing = threading.Thread(target=type_keys)
        typing.start()
        watch.run()
        typing.join()
    return watch


def test_keys_move_and_leave_while_a_look_goes_wrong() -> None:
    """A look that fails later leaves the rows as they were, and says why."""
    looks, ready = [], threading.Event()

    def look() -> list[WatchedObject]:
        looks.append(1)
        if len(looks) > 2:
            ready.set()
            raise error("STORAGE_ERROR", message="the disk is gone")
        return MANY

    watch = _watch(look, "jjjkq", ready)
    assert (watch._screen.cursor, len(watch._screen.rows)) == (2, 200)
    assert watch._screen.problem == "the disk is gone"
    assert "not new: the disk is gone" in texts(draw(watch._screen, 80, 24, 0))


def test_a_first_look_that_fails_ends_it() -> None:
    def look() -> list[WatchedObject]:
        raise error("WAREHOUSE_NOT_FOUND", location="w", detail="", hint="")

    ready = threading.Event()
    ready.set()
    with pytest.raises(CtsqlError, match="w"):
        _watch(look, "", ready)
