"""Two services keep views that rows leave as time passes, and are killed at random moments.

Each row must come once and leave once, at the very T at which its time is over, whoever wrote it.
"""

import random
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ctsql.runtime.views.expiry_table import FOUND, ROWS_MIN
from tests.crash.killed_processes import (
    SECONDS_TO_END,
    Crew,
    Event,
    crew_of,
    seconds,
    stored,
    table_of,
)
from tests.crash.test_killed import killing
from tests.helpers.table_folder import check_written_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SECONDS_TO_SETTLE = 1_500
"""Each of four outputs has more than a hundred Ts to be written at, one after the other."""


def leaves_at(until_us: int) -> int:
    """The first T at which ``until > now()`` is false."""
    return -(-until_us // 1_000)


def check_each_row(warehouse: Path, events: Sequence[Event]) -> int:
    """Each row came once and left once, at its time; gives how many did."""
    rows = {k: (leaves_at(us), e[2]) for e in events if e[0] == "ack" for k, _, us in e[1]}
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for at, k, d in stored(table_of(warehouse, "seen"), "at, k, d"):
        found[k].append((round(at.timestamp() * 1_000), d))
    assert set(found) <= set(rows)
    for k, (leaves, acked) in rows.items():
        if k not in found:
            assert leaves <= acked + 1_000, f"row {k} was never seen"
            continue
        (came, plus), (left, minus) = sorted(found[k])
        assert (plus, minus, left) == (1, -1, leaves), f"row {k}: {found[k]}, due {leaves}"
        assert came < left
    return len(found)


def check_sums(warehouse: Path, groups: dict[int, int]) -> None:
    """The log of the sums is what the log of the rows adds up to, T by T."""
    at_each: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for at, k, d in stored(table_of(warehouse, "seen"), "at, k, d"):
        change = at_each[round(at.timestamp() * 1_000)][groups[k]]
        change[0] += d
        change[1] += d * k
    wanted: list[tuple[Any, ...]] = []
    held: dict[int, tuple[int, int]] = {}
    for t, changes in sorted(at_each.items()):
        for g, (count, total) in changes.items():
            old = held.pop(g, (0, 0))
            new = (old[0] + count, old[1] + total)
            if old == new:
                held[g] = old
                continue
            wanted += [(t, g, *old, -1)] if old[0] else []
            wanted += [(t, g, *new, 1)] if new[0] else []
            if new[0]:
                held[g] = new
    logged = stored(table_of(warehouse, "summed"), "at, g, c, s, d")
    assert sorted((round(a.timestamp() * 1_000), *more) for a, *more in logged) == sorted(wanted)


@pytest.mark.parametrize("past", [0, ROWS_MIN], ids=["by the table", "by expiry tables"])
def test_two_services_let_rows_go(warehouse: Path, tmp_path: Path, past: int) -> None:
    """Whoever of them sees that a row is due writes it, and the other one does not again."""
    with crew_of(warehouse, tmp_path) as crew:
        crew.run("set_up_time", past)
        lasting, draw = seconds(60), random.Random(crew.seed)
        running = {name: crew.service() for name in ("one", "two")}
        writer = crew.program("let_expire", lasting=lasting)
        writer.wait_for("ready")
        until = time.monotonic() + lasting
        killing(crew, draw, running, until, lambda *_: crew.service())
        writer.finish(SECONDS_TO_END)
        time.sleep(16)  # the last row is over
        running["one"].kill()
        running["two"].stop()
        events = list(crew.events)
        settled = crew.run("settle_time", within=SECONDS_TO_SETTLE)
        assert [e for e in settled if e[0] in ("verify", "held") and e[2]] == []
        groups = {k: g for e in events if e[0] == "try" for k, g, _ in e[1]}
        assert check_each_row(warehouse, events) > len(groups) // 2
        check_sums(warehouse, groups)
        for name in ("live", "sums", "seen", "summed"):
            check_written_once(table_of(warehouse, name))
        check_found_by_expiries(warehouse, by_expiries=past > 0)
        check_nothing_failed(crew)


def check_found_by_expiries(warehouse: Path, *, by_expiries: bool) -> None:
    """The views have expiry tables just where their table is large, and these were used."""
    for name in ("live", "sums"):
        folder = table_of(warehouse, name)
        assert (folder / "_expiries").exists() is by_expiries, name
        assert (
            FOUND in "".join(p.read_text() for p in folder.glob("_delta_log/*.json"))
        ) is by_expiries


def check_nothing_failed(crew: Crew) -> None:
    """None of the processes met anything that it did not expect."""
    assert crew.report().total() > 0
    for child in crew.children:
        assert "Traceback" not in child.log.read_text(), child.said()
