"""Every example's output equals what plain Python computes from the data's files."""

import csv
import io
import re
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection, connect
from examples.load import data_folder, load
from tests.conftest import ROOT, TEST_MASTER

pytestmark = pytest.mark.spark

Row = dict[str, Any]
EXAMPLES = ROOT / "examples"
TESTED = {
    "deduplicate.sql",
    "fixpoint.sql",
    "retention.sql",
    "running_balance.sql",
    "upsert.sql",
    "audit_log.sql",
    "stream_table_join.sql",
    "view.sql",
    "change_data_capture.sql",
    "dead_letters.sql",
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse with the flights in it."""
    warehouse = str(tmp_path_factory.mktemp("examples") / "warehouse")
    with connect(warehouse, master=TEST_MASTER) as con:
        load(con)
        load(con)  # the second time changes nothing
        assert con.execute("SELECT count(*) FROM flights").fetchall() == [(336_776,)]
    return warehouse


def lines() -> Iterator[dict[str, str]]:
    """All flights, read without Spark, pyarrow or the loader's own code."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        yield from csv.DictReader(io.TextIOWrapper(archive.open("flights.csv"), encoding="utf-8"))


@pytest.fixture(scope="module")
def departures() -> list[Row]:
    """The flights that left."""
    found: list[Row] = []
    for line in lines():
        if line["dep_time"] != "NA":
            row: Row = {
                k: int(line[k]) for k in ("month", "day", "dep_delay", "flight", "distance")
            }
            row |= {k: line[k] for k in ("carrier", "tailnum", "origin", "dest")}
            row["departs"] = _hour(line) + timedelta(minutes=int(line["minute"]))
            found.append(row)
    return found


def _hour(line: dict[str, str]) -> datetime:
    return datetime.strptime(line["time_hour"], "%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    """The airlines' names by code."""
    with (data_folder() / "airlines.csv").open(encoding="utf-8") as file:
        return {line["carrier"]: line["name"] for line in csv.DictReader(file)}


def run(warehouse: str, script: str) -> Connection:
    """Run an example; gives the connection, in the schema of the example."""
    con = connect(warehouse, master=TEST_MASTER)
    con.execute((EXAMPLES / script).read_text(), source_name=script)
    return con


def test_every_example_is_tested() -> None:
    """A new script must join this module."""
    assert {path.name for path in EXAMPLES.glob("*.sql")} == TESTED
    assert all(name in (EXAMPLES / "README.md").read_text() for name in TESTED)


def test_upsert(loaded: str, departures: list[Row]) -> None:
    """Each aircraft has one row: its last departure of the year."""
    last: dict[str, tuple[Any, ...]] = {}
    for d in departures:
        state = (d["departs"], d["carrier"], d["flight"], d["origin"], d["dest"])
        last[d["tailnum"]] = max(last.get(d["tailnum"], state), state)
    with run(loaded, "upsert.sql") as con:
        rows = con.execute("SELECT * FROM aircraft").fetchall()
    assert len(rows) == len(last) == 4_037
    assert {row[0]: (_utc(row[1]), *row[2:]) for row in rows} == last


def _utc(value: object) -> datetime:
    assert isinstance(value, datetime)
    return value.astimezone(UTC).replace(tzinfo=None)


@pytest.mark.slow
def test_deduplicate(loaded: str) -> None:
    """Every flight of three days is there once, from the first delivery that had it."""
    expected = set()
    for line in lines():
        if line["month"] == "1" and line["day"] in ("1", "2", "3"):
            copy = (int(line["day"]), line["origin"], line["dest"])
            expected.add((_hour(line), line["carrier"], int(line["flight"]), *copy))
    with run(loaded, "deduplicate.sql") as con:
        rows = con.execute("SELECT * FROM flights_once").fetchall()
        ((delivered,),) = con.execute("SELECT count(*) FROM deliveries").fetchall()
    assert len(rows) == len(expected) < delivered
    assert {(_utc(row[0]), *row[1:]) for row in rows} == expected


@pytest.mark.slow
def test_running_balance(loaded: str, departures: list[Row]) -> None:
    """Each entry has its number and the miles up to it; the last one takes the first back."""
    expected: dict[str, list[tuple[Any, ...]]] = defaultdict(list)

    def enter(tailnum: str, departs: datetime, flight: int, miles: int) -> None:
        total = expected[tailnum][-1][-1] if expected[tailnum] else 0
        entry = len(expected[tailnum]) + 1
        expected[tailnum].append((entry, departs, flight, miles, total + miles))

    for day in (1, 2, 3):
        of_day = [d for d in departures if (d["month"], d["day"]) == (1, day)]
        for d in sorted(of_day, key=lambda d: (d["departs"], d["flight"])):
            enter(d["tailnum"], d["departs"], d["flight"], d["distance"])
    _, departs, flight, miles, _ = expected["N14542"][0]
    enter("N14542", departs, flight, -miles)
    with run(loaded, "running_balance.sql") as con:
        rows = con.execute("SELECT * FROM logbook").fetchall()
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for tailnum, entry, departs, *rest in sorted(rows, key=lambda row: row[:2]):
        found[tailnum].append((entry, _utc(departs), *rest))
    assert found == expected


@pytest.mark.slow
def test_retention(warehouse: Path) -> None:
    """What is older than an hour is out, by the clock; the view counts what is in."""
    with run(str(warehouse), "retention.sql") as con:
        time.sleep(1)  # the row that had a second left is too old now
        con.execute("INSERT INTO requests SELECT now(), '/pay', 503")
        rows = con.execute("SELECT * FROM last_hour").fetchall()
        requests = con.execute("SELECT * FROM requests").fetchall()
        errors = con.execute("SELECT * FROM errors").fetchall()
    oldest = datetime.now(UTC) - timedelta(hours=1)
    expected = [row for row in requests if row[0] > oldest]
    assert Counter(rows) == Counter(expected)
    assert (len(requests), len(expected)) == (8, 6)
    counts = {
        path: (len(of_path), sum(status >= 500 for status in of_path))
        for path in {row[1] for row in expected}
        for of_path in [[row[2] for row in expected if row[1] == path]]
    }
    assert {path: tuple(rest) for path, *rest in errors} == counts


@pytest.mark.slow
def test_fixpoint(warehouse: Path) -> None:
    """After each commit the line is what a walk down from every teacher meets."""
    with run(str(warehouse), "fixpoint.sql") as con:
        times = sorted({c.t for c in con.subscribe("taught", begin=0, up_to="now")})
        for t in times:
            students = defaultdict(set)
            for teacher, student in con.execute(f"SELECT * FROM taught AS OF {t}").fetchall():
                students[teacher].add(student)
            expected = set()
            for teacher in list(students):
                below = set(students[teacher])
                while more := {s for b in below for s in students.get(b, ())} - below:
                    below |= more
                expected |= {(teacher, b) for b in below}
            rows = con.execute(f"SELECT * FROM line AS OF {t}").fetchall()
            assert sorted(rows) == sorted(expected)
    assert len(times) == 2
    assert ("Euler", "Hilbert") in rows


def test_audit_log(loaded: str, departures: list[Row]) -> None:
    """The log has each count above ten once, in order, at increasing Ts."""
    counts: list[int] = []
    so_far = 0
    for day in range(1, 15):
        of_day = [d for d in departures if (d["month"], d["day"]) == (1, day)]
        so_far += sum(d["dep_delay"] > 300 for d in of_day)
        if so_far > 10 and so_far not in counts:
            counts.append(so_far)
    with run(loaded, "audit_log.sql") as con:
        rows = con.execute("SELECT at, count FROM audit_log ORDER BY at").fetchall()
        view = con.execute("SELECT count FROM anomalies").fetchall()
    assert [count for _, count in rows] == counts
    assert len({at for at, _ in rows}) == len(rows)
    assert view == [(counts[-1],)]


@pytest.mark.slow
def test_stream_table_join(loaded: str, departures: list[Row], names: dict[str, str]) -> None:
    """A departure keeps the name that its airline had when it arrived in the feed."""
    expected: Counter[tuple[Any, ...]] = Counter()
    for d in departures:
        if d["carrier"] in ("US", "AA", "FL") and d["month"] >= 11:
            merged = d["carrier"] != "FL" and d["month"] == 12 and d["day"] >= 9
            name = "American Airlines Group" if merged else names[d["carrier"]]
            expected[d["month"], d["day"], name, d["flight"], d["dest"]] += 1
    with run(loaded, "stream_table_join.sql") as con:
        rows = con.execute("SELECT * FROM board").fetchall()
    assert Counter(rows) == expected


@pytest.mark.slow
def test_view(loaded: str, departures: list[Row], names: dict[str, str]) -> None:
    """The view equals its query on the corrected rows and the new names, on every run."""
    names = names | dict.fromkeys(("WN", "FL"), "Southwest Airlines Co.")
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for d in departures:
        if d["month"] <= 2 and d["dep_delay"] <= 1000:
            expected[names[d["carrier"]]][0] += 1
            expected[names[d["carrier"]]][1] += d["dep_delay"]
    run(loaded, "view.sql").close()
    with run(loaded, "view.sql") as con:
        rows = con.execute("SELECT * FROM punctuality").fetchall()
        worst = con.execute("SELECT airline FROM worst ORDER BY average DESC LIMIT 1").fetchall()
    assert sorted(rows) == sorted((name, *pair) for name, pair in expected.items())
    often = {name: late / count for name, (count, late) in expected.items() if count > 100}
    assert worst == [(max(often, key=lambda name: often[name]),)]


@pytest.mark.slow
def test_change_data_capture(loaded: str) -> None:
    """Both targets are those of the events in order, though the months came in another."""
    by_aircraft: dict[str, dict[datetime, tuple[bool, str]]] = defaultdict(dict)
    for line in lines():
        if line["month"] in ("3", "7", "9") and line["tailnum"] != "NA":
            departs = _hour(line) + timedelta(minutes=int(line["minute"]))
            event = (line["dep_time"] == "NA", line["carrier"])
            events = by_aircraft[line["tailnum"]]
            events[departs] = max(events.get(departs, event), event)  # a cancellation last
    operators, history = set(), set()
    for tailnum, events in by_aircraft.items():
        current: tuple[str, datetime] | None = None
        for departs, (cancelled, carrier) in sorted(events.items()):
            if current is not None and (cancelled or carrier != current[0]):
                history.add((tailnum, *current, departs))
                current = None
            if not cancelled and current is None:
                current = (carrier, departs)
        if current is not None:
            history.add((tailnum, *current, None))
            operators.add((tailnum, current[0]))
    with run(loaded, "change_data_capture.sql") as con:
        assert set(con.execute("SELECT * FROM operators").fetchall()) == operators
        rows = con.execute("SELECT * FROM history").fetchall()
    assert len(rows) == len(history)
    assert {(a, c, _utc(s), e and _utc(e)) for a, c, s, e in rows} == history


@pytest.mark.slow
def test_dead_letters(loaded: str) -> None:
    """Every flight of two months is in one of the outputs, and the view counts each once."""
    expected: Counter[tuple[int, str]] = Counter()
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        text = io.TextIOWrapper(archive.open("flights.csv"), encoding="utf-8")
        for line in csv.DictReader(text):
            if line["month"] in ("1", "2"):
                state = "no aircraft" if line["tailnum"] == "NA" else "clean"
                if state == "clean" and line["dep_delay"] == "NA":
                    state = "never left"
                is_sent_again = (line["month"], line["day"]) == ("1", "1")
                expected[int(line["month"]), "clean" if is_sent_again else state] += 1
    with run(loaded, "dead_letters.sql") as con:
        rows = con.execute("SELECT * FROM routed").fetchall()
        looked_up = con.execute("SELECT count(*) FROM clean WHERE tailnum = 'looked up'").fetchall()
        left = con.execute("SELECT * FROM dead_letters WHERE month = 1 AND day = 1").fetchall()
    assert Counter({(month, state): count for month, state, count in rows}) == expected
    assert looked_up[0][0] > 0
    assert left == []


@pytest.mark.slow
def test_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo plays both recipes, says what each batch did, and how to go on."""
    from examples import demo

    monkeypatch.chdir(tmp_path)
    assert demo.run(str(tmp_path / "demo")) == demo.OK
    printed = capsys.readouterr().out
    assert "336,776 rows" in printed
    assert "now aircraft has 4,037 rows" in printed
    assert "now anomalies has 1 row, audit_log has 4 rows" in printed
    assert len(re.findall(r"rows in at T = \d+", printed)) == 12 + 14
    assert f"-w {tmp_path / 'demo'}" in printed


def test_data_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the data's package the demo says so, and what to type."""
    from examples import demo, load

    monkeypatch.setattr(load, "PACKAGE", "a_package_that_is_not_there")
    assert demo.run(str(tmp_path / "warehouse")) == demo.FAILED
