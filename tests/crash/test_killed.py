"""Services, writers and readers on one warehouse, killed with SIGKILL at random moments.

What must hold: each statement that was acknowledged is in, one that was not is in whole or not at
all; every read is one cut; outputs are what their inputs make of them; readers with names are
told every T, in order, none missing, each whole. What is stored is read by delta-rs.
"""

import itertools
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.crash.killed_processes import Child, Crew, Event, crew_of, seconds, stored, table_of
from tests.crash.programs import ACCOUNTS, OPENING
from tests.helpers.table_folder import check_written_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

FOLLOWED = ("copy", "gathered", "per_writer", "even", "moved")
"""A task, one with COALESCE, a materialized view, one output of several, a plain view."""


def check_cuts(events: Sequence[Event]) -> int:
    """Each read was one cut; gives how many there were."""
    cuts = [e[1] for e in events if e[0] == "cut"]
    for cut in cuts:
        assert cut["both"] == 2 * ACCOUNTS * OPENING == cut["total"], cut
        assert cut["gone"] == cut["moved"] == cut["viewed"] == cut["ledger"], cut
        assert cut["feed"] == cut["copied"] == cut["counted"] == cut["parted"], cut
        assert cut["torn"] == cut["old"] == 0, cut
    return len(cuts)


def check_written(warehouse: Path, events: Sequence[Event]) -> Counter[tuple[Any, ...]]:
    """What was acknowledged is in, whole and once; gives the rows of the feed."""
    feed = Counter(stored(table_of(warehouse, "feed"), "w, n, i"))
    moves = Counter(stored(table_of(warehouse, "moves"), "w, n, amount"))
    tried = {(e[1], e[2], e[3]): e[4] for e in events if e[0] == "try"}
    acked = {(e[1], e[2], e[3]) for e in events if e[0] == "ack"}
    lost = {(e[1], e[2], e[3]) for e in events if e[0] == "lost" and e[4] == "TRANSACTION_CONFLICT"}
    batches: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for w, n, i in feed:
        batches["feed", w, n].add(i)
    assert set(feed.values()) <= {1}, "no row twice"
    for batch, held in batches.items():
        assert held == set(range(tried[batch])), f"half of {batch}"
    notes = {("moves", w, n): amount for w, n, amount in moves}
    assert set(moves.values()) <= {1}, "no transfer twice"
    assert all(tried[note] == amount for note, amount in notes.items())
    there = batches.keys() | notes.keys()
    assert acked <= there, f"acknowledged and not in: {sorted(acked - there)}"
    assert there <= tried.keys(), "nothing that nobody wrote"
    assert not there & lost, f"refused and in all the same: {sorted(there & lost)}"
    left, right = (
        sum(a for (a,) in stored(table_of(warehouse, side), "amount"))
        for side in ("left_side", "right_side")
    )
    assert right - ACCOUNTS * OPENING == sum(notes.values()) == ACCOUNTS * OPENING - left
    return feed


def check_outputs(warehouse: Path, feed: Counter[tuple[Any, ...]]) -> None:
    """Each output is what the feed makes of it, read without ctsql."""
    held = {
        name: Counter(stored(table_of(warehouse, name), "w, n, i"))
        for name in ("copy", "gathered", "even", "odd")
    }
    assert held["copy"] == feed
    assert held["gathered"] == feed, "what COALESCE gathers is lost or doubled"
    assert held["even"] + held["odd"] == feed
    assert all(i % 2 == 0 for _, _, i in held["even"])
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for w, n, i in feed.elements():
        groups[w, n].append(i)
    counted = [(w, n, len(i), sum(i)) for (w, n), i in groups.items()]
    assert sorted(stored(table_of(warehouse, "per_writer"), "w, n, c, s")) == sorted(counted)
    newest = {w: max(n for v, n in groups if v == w) for w, _ in groups}
    assert dict(stored(table_of(warehouse, "newest"), "w, n")) == newest
    per_w = Counter(w for w, _, _ in feed.elements())
    assert dict(stored(table_of(warehouse, "now_and_then"), "w, c")) == dict(per_w)
    for name in ("copy", "gathered", "even", "odd", "per_writer", "newest", "ledger"):
        check_written_once(table_of(warehouse, name))


def check_settled(events: Sequence[Event]) -> None:
    """After all of it the views equal their queries, and no task has failed."""
    assert [e[1:] for e in events if e[0] == "verify" and e[2]] == []
    tasks = [e[1] for e in events if e[0] == "task"]
    assert tasks
    assert not [task for task in tasks if "failed" in task]


def check_problems(crew: Crew) -> None:
    """No statement said anything but that another one came first; and a kill hit something."""
    killed = crew.report()
    assert any("within" in what or "writing" in what for what in killed), killed
    assert [e for e in crew.events if e[0] == "problem"] == []
    for child in crew.children:
        assert "Traceback" not in child.log.read_text(), child.said()


def killing(
    crew: Crew, draw: random.Random, running: dict[str, Child], until: float, again: Any
) -> None:
    """Kill one of some processes now and then, and start it anew.

    Most are killed at work; some while they start.
    """
    while time.monotonic() < until:
        time.sleep(min(draw.choice([2, 5, 10, 20]), max(0.1, until - time.monotonic())))
        name = draw.choice(sorted(running))
        if not running[name].is_up() and draw.random() < 0.9:
            continue
        crew.kill(running[name])
        running[name] = again(name, until - time.monotonic())


def starting(crew: Crew, jobs: str, into: Path) -> Callable[[str, float], Child]:
    """Starts a load with threads for these jobs, the followers, or else a service, by its name."""
    numbers = itertools.count(1)

    def start(name: str, left: float) -> Child:
        lasting = max(left, 5)
        if name == "follow":
            return crew.program("follow", ",".join(FOLLOWED), into, lasting=lasting)
        if name.startswith("load"):
            return crew.program("load", next(numbers), jobs, lasting=lasting)
        return crew.service()

    return start


def settle(crew: Crew) -> list[Event]:
    """Bring all up to now: views and outputs are right; gives what all processes have said."""
    check_settled(crew.run("settle"))
    events = list(crew.events)
    check_outputs(crew.warehouse, check_written(crew.warehouse, events))
    return events


@pytest.mark.parametrize("threads", ["imlx", "ibmm"], ids=["readers", "large"])
def test_two_services_and_a_load(threads: str, warehouse: Path, tmp_path: Path) -> None:
    """Two ``ctsql run`` and a process of threads, each killed again and again, refreshes too."""
    with crew_of(warehouse, tmp_path) as crew:
        crew.run("set_up")
        draw, lasting = random.Random(crew.seed), seconds(90)
        start = starting(crew, threads, tmp_path)
        running = {name: start(name, lasting) for name in ("one", "two", "load")}
        running["load"].wait_for("ready")
        killing(crew, draw, running, time.monotonic() + lasting, start)
        running["load"].finish(SECONDS_TO_END)
        running["one"].kill()
        running["two"].stop()
        assert check_cuts(settle(crew)) > threads.count("l")  # who looks
        check_problems(crew)


def test_two_loads_and_a_service(warehouse: Path, tmp_path: Path) -> None:
    """Two processes write and read at once while a service works; one of them is killed."""
    with crew_of(warehouse, tmp_path) as crew:
        crew.run("set_up")
        draw, lasting = random.Random(crew.seed), seconds(90)
        start = starting(crew, "iml", tmp_path)
        running = {name: start(name, lasting) for name in ("service", "load", "load again")}
        running["load"].wait_for("ready")
        steady = running.pop("load")
        killing(crew, draw, running, time.monotonic() + lasting, start)
        for child in (steady, running["load again"]):
            child.finish(SECONDS_TO_END)
        running["service"].stop()
        assert check_cuts(settle(crew)) > 1
        check_problems(crew)


SECONDS_TO_END = 240


def told_to(into: Path) -> list[tuple[int, list[Any] | None]]:
    """What a reader wrote down, in order: T and its rows as given out; None for acknowledged."""
    found: list[tuple[int, list[Any] | None]] = []
    for line in into.read_text().splitlines():
        try:
            t, rows = json.loads(line)
        except ValueError:
            continue  # empty, or cut by a kill
        found.append((t, rows))
    return found


def wait_until_told(folder: Path, events: Sequence[Event]) -> None:
    """Wait until each reader has acknowledged its last T; ``check_told`` says what is missing."""
    newest: dict[str, int] = {}
    for name, t in (e[1:3] for e in events if e[0] == "row"):
        newest[name] = max(t, newest.get(name, -1))
    until = time.monotonic() + SECONDS_TO_END
    while time.monotonic() < until:
        done = {
            n: {t for t, rows in told_to(folder / f"{n}.jsonl") if rows is None} for n in newest
        }
        if all(newest[name] in done[name] for name in newest):
            return
        time.sleep(1)


def check_told(into: Path, events: Sequence[Event]) -> None:
    """Every T, in order, whole, the same each time; again only what was not acknowledged."""
    wanted: dict[int, list[Any]] = defaultdict(list)
    name = into.stem
    for t, diff, *row in (e[2:] for e in events if e[:2] == ["row", name]):
        wanted[t].append([t, diff, *row])
    times = sorted(wanted)
    seen: set[int] = set()
    acknowledged = -1
    for t, rows in told_to(into):
        if rows is None:
            assert t in seen, f"{name}: T = {t} was acknowledged and not told"
            acknowledged = max(acknowledged, t)
            continue
        assert t > acknowledged, f"{name}: T = {t} came again after it was acknowledged"
        assert sorted(rows, key=str) == sorted(wanted[t], key=str), f"{name}: T = {t} is another"
        missing = [u for u in times if u < t and u not in seen]
        assert not missing, f"{name}: T = {t} came before {missing}"
        seen.add(t)
    assert seen == set(times), f"{name}: left out {sorted(set(times) - seen)}"


def test_named_readers(warehouse: Path, tmp_path: Path) -> None:
    """Readers of a task, a COALESCE task, views and one of several outputs; all are killed."""
    with crew_of(warehouse, tmp_path) as crew:
        crew.run("set_up")
        draw, lasting, start = random.Random(crew.seed), seconds(90), starting(crew, "im", tmp_path)
        running = {name: start(name, lasting) for name in ("service", "load", "follow")}
        running["load"].wait_for("ready")
        running["follow"].wait_for("ready")
        killing(crew, draw, running, time.monotonic() + lasting, start)
        running["load"].finish(SECONDS_TO_END)
        running["follow"].kill()
        running["service"].kill()
        settle(crew)
        told = crew.run("told", ",".join(FOLLOWED))
        last = start("follow", SECONDS_TO_END)
        wait_until_told(tmp_path, told)
        last.kill()
        for name in FOLLOWED:
            check_told(tmp_path / f"{name}.jsonl", told)
            if name != "moved":  # it is stored nowhere
                net: Counter[tuple[Any, ...]] = Counter()
                for _t, diff, *row in (e[2:] for e in told if e[:2] == ["row", name]):
                    net[tuple(row)] += diff
                columns = "w, n, c, s" if name == "per_writer" else "w, n, i"
                held = Counter(stored(table_of(warehouse, name), columns))
                assert {r: c for r, c in net.items() if c} == dict(held), name
        check_problems(crew)
