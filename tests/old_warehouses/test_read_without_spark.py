"""Status, SHOW and DESCRIBE of a warehouse on a local disk start no JVM and import no Spark."""

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ctsql.api import connect
from ctsql.runtime.subscriptions.cursors import Readers
from ctsql.side_reader import SideReader
from ctsql.status_page.access import LOCAL_NAMES
from ctsql.status_page.lookup import Lookup
from ctsql.status_page.site import Site
from tests.helpers.old_warehouse import unpack

NOT_IMPORTED = ("pyspark", "py4j", "delta", "pyarrow", "duckdb")


@pytest.fixture
def old(tmp_path: Path) -> str:
    folder = tmp_path / "w"
    unpack("037d757", folder)
    return str(folder)


def test_states_and_definitions(old: str) -> None:
    """A JVM could not be started here."""
    with connect(old, read_only=True) as con:
        states = {row[2]: row[3] for row in con.status().fetchall()}
        assert states == {
            "ratios": "failed",
            **dict.fromkeys(("latest", "sort_feed", "windows"), "behind"),
            **dict.fromkeys(("averages", "levels", "counted"), "behind"),
        }
        tasks = con.execute("SHOW CONTINUAL TASKS").fetchall()
        assert [row[1] for row in tasks] == ["latest", "ratios", "sort_feed", "windows"]
        assert con.execute("DESCRIBE feed").fetchall()[0][0] == "k"
        assert len(con.execute("SHOW SUBSCRIPTIONS").fetchall()) == 1
        assert not con.started


def test_imports(old: str) -> None:
    """Their imports would take longer than all the rest."""
    program = f"""
import sys
import time
from ctsql.api import connect
from ctsql.runtime.subscriptions.cursors import Readers
from ctsql.side_reader import SideReader
from ctsql.status_page.access import LOCAL_NAMES
from ctsql.status_page.lookup import Lookup
from ctsql.status_page.site import Site
with connect({old!r}) as con:
    con.status(); con.execute("SHOW TABLES"); con.execute("DESCRIBE EXTENDED latest")
print([name for name in {NOT_IMPORTED} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"


def test_the_status_page(old: str) -> None:
    """Every page of a real warehouse; what cannot be told from its logs is said to be missing."""
    with connect(old, read_only=True) as con:
        app = Site(SideReader(con), Lookup(), "w").app(token=None, hosts=LOCAL_NAMES)
        with TestClient(app, base_url="http://localhost") as client:
            first = client.get("/")
            assert first.status_code == 200
            assert 'data-name="ratios" data-state="failed"' in first.text
            ids = set(re.findall(r'href="/object/(\w+)"', first.text))
            assert len(ids) >= 8
            pages = {i: client.get(f"/object/{i}") for i in ids}
            assert {p.status_code for p in pages.values()} == {200}
            (failed,) = (p.text for p in pages.values() if "ratios <small" in p.text)
            for word in (
                "division by zero",
                "RETRY",
                "Definition",
                "Plan",
                "Readers",
                "log from version",
            ):
                assert word in failed, word
            warehouse = client.get("/warehouse")
            assert warehouse.status_code == 200
            assert "Timeline" in warehouse.text
        assert not con.started


def test_the_status_page_of_tables_that_are_gone(old: str) -> None:
    """What reads them is unreadable, says why, and everything else is shown."""
    for name in ("averages", "feed"):
        (gone,) = Path(old, "default").glob(f"{name}-*")
        shutil.rmtree(gone)
        with connect(old, read_only=True) as con:
            app = Site(SideReader(con), Lookup(), "w").app(token=None, hosts=LOCAL_NAMES)
            with TestClient(app, base_url="http://localhost") as client:
                first = client.get("/").text
                assert 'data-name="levels" data-state="unreadable"' in first
                assert "there is no Delta table at" in first
                ids = set(re.findall(r'href="/object/(\w+)"', first))
                pages = ["/warehouse", *(f"/object/{i}" for i in ids)]
                assert {client.get(page).status_code for page in pages} == {200}


def test_the_status_page_as_a_process(old: str, tmp_path: Path) -> None:
    """It says where it is, answers, and ends at a signal; a missing warehouse is an error."""
    command = [sys.executable, "-m", "ctsql", "serve", "--listen", "0", "-w"]
    process = subprocess.Popen([*command, old], stderr=subprocess.PIPE)
    assert process.stderr is not None
    address = process.stderr.readline().decode().split()[-1]
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert "ratios" in answer.read().decode()
    process.terminate()
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, b"")
    done = subprocess.run([*command, str(tmp_path / "none")], capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"WAREHOUSE_NOT_FOUND" in done.stderr


def _commit(table: Path, *actions: dict[str, object]) -> None:
    """Commit to a table as another process does."""
    log = table / "_delta_log"
    newest = max(int(name.stem) for name in log.glob("*.json"))
    told = {"commitInfo": {"inCommitTimestamp": int(time.time() * 1000)}}
    text = "\n".join(json.dumps(action) for action in (told, *actions))
    (log / f"{newest + 1:020}.json").write_text(text)


def test_the_status_page_renews_what_the_first_page_does_not_show(old: str) -> None:
    """How far a reader has come, and a definition: nothing else has changed there."""
    with connect(old, read_only=True) as con:
        lookup, ask = Lookup(), SideReader(con)
        before = ask(lookup.overview)
        assert ask(lookup.overview).besides == before.besides
        ((reader, item, position),) = ask(lambda reader: Readers(reader).list_all())
        page = ask(partial(lookup.details, object_id=item.id))
        assert page is not None
        assert position.needed_from in [r.needs_from for r in page.readers]
        moved = {"txn": {"appId": reader.app, "version": position.next + 5}}
        _commit(Path(old, "_ctsql", "subscriptions"), moved)
        after = ask(lookup.overview)
        assert after.besides != before.besides
        assert (after.objects, after.arrows) == (before.objects, before.arrows)
        page = ask(partial(lookup.details, object_id=item.id))
        assert page is not None
        assert position.next + 4 in [r.needs_from for r in page.readers]
    shutil.rmtree(Path(old, "_ctsql", "subscriptions"))
    with connect(old, read_only=True) as con:
        assert SideReader(con)(Lookup().overview).objects
