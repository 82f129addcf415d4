"""The status page without a browser: what is in it, who may see it, and that it never waits."""

import base64
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import pairwise
from unittest.mock import Mock

import httpx2 as httpx
import pytest
from hypothesis import given, strategies as st
from starlette.testclient import TestClient

from ctsql.catalog.errors import CtsqlError, error
from ctsql.cli.serve import check_installed, serving_postgres
from ctsql.status_page import access, drawing, poller, site
from ctsql.status_page.access import LOCAL_NAMES
from ctsql.status_page.layers import layout
from ctsql.status_page.lookup import last_change
from ctsql.status_page.model import Arrow, GraphNode, Overview
from ctsql.status_page.site import Site
from tests.helpers import made_pages
from tests.helpers.made_pages import EVIL, TASK, MadeWarehouse, ask, id_of, shop

TOKEN = "0123456789abcdef0123"


@contextmanager
def opened(made: MadeWarehouse, token: str | None = None) -> Iterator[TestClient]:
    app = Site(ask, made, "shop").app(token=token, hosts=LOCAL_NAMES)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


class Page(HTMLParser):
    """A page, taken apart: its tags with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def having(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        return [a for t, a in self.tags if t == tag and wanted.items() <= a.items()]


def got(client: TestClient, path: str) -> Page:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def test_all_objects_are_in_the_graph_and_in_the_table() -> None:
    made = shop()
    with opened(made) as client:
        page = got(client, "/")
    names = {r.object for r in made.rows}
    boxes = page.having("a", **{"class": "box is-up-to-date kind-continual-task"})
    assert {b["data-name"] for b in boxes} == {"clean_orders", "audit_log"}
    assert {a["data-name"] for t, a in page.tags if "data-name" in a} == names
    assert len(page.having("path", **{"class": "line role-reference"})) == 1
    assert len([1 for t, a in page.tags if t == "tr" and "data-object" in a]) == len(names)
    assert "All is well" in page.text


def test_what_is_read_is_told_once_for_all() -> None:
    """References in parentheses, nothing of what is not shown; thousands take no time."""
    named = [
        GraphNode(id=i, name=f"the {i}", kind="table", state="stored") for i in ("a", "b", "c")
    ]
    arrows = [Arrow("a", "c", "input"), Arrow("b", "c", "reference"), Arrow("x", "b", "input")]
    assert Overview(tuple(named), tuple(arrows), 1).reads() == {
        "a": "",
        "b": "",
        "c": "the a, (the b)",
    }
    many = [GraphNode(id=str(i), name=str(i), kind="table", state="stored") for i in range(20_000)]
    chain = [Arrow(str(i), str(i + 1), "input") for i in range(19_999)]
    begun = time.monotonic()
    assert Overview(tuple(many), tuple(chain), 1).reads()["19999"] == "19998"
    assert time.monotonic() - begun < 10  # by looking through all for each it is a minute


def test_what_failed_comes_first_with_what_to_type() -> None:
    """The person on call reads: what, since when, where, and what to type."""
    made = shop()
    made.fail("clean_orders")
    with opened(made) as client:
        page = got(client, "/")
        detail = got(client, f"/object/{id_of('clean_orders')}")
    for shown in (page, detail):
        assert "ALTER CONTINUAL TASK clean_orders RETRY" in shown.text
        assert "cannot be cast" in shown.text
        assert "line 3, column 35" in shown.text
    assert "1 of 13 objects needs attention" in page.text
    assert page.text.index("RETRY") < page.text.index("What reads what")
    (box,) = page.having("a", **{"data-name": "clean_orders"})
    assert "is-failed" in box["class"]
    assert len(detail.having("li", **{"class": "at-fault"})) == 1


def test_the_pages_of_an_object_and_of_the_warehouse() -> None:
    with opened(shop()) as client:
        page = got(client, f"/object/{id_of('order_lines')}")
        table = got(client, f"/object/{id_of('orders')}")
        warehouse = got(client, "/warehouse")
        assert client.get("/object/none").status_code == 404
    bars = [a for t, a in page.tags if t == "rect" and a.get("class", "").startswith("bar s-")]
    in_charts = [b for b in bars if b["width"] != "12"]
    assert len(in_charts) == 200
    assert {"bar s-incremental", "bar s-recompute-and-diff"} <= {b["class"] for b in in_charts}
    for word in ("Definition", "Plan", "Readers", "2.5 MB", "Last 100 refreshes", "upper"):
        assert word in page.text
    assert "3 in order_lines_quarantine" in page.text
    assert "FROM system.quarantine WHERE object = 'order_lines'" in page.text
    for word in ("Last 100 refreshes", "Failures", "newest T"):
        assert word in warehouse.text
    assert "refreshes" not in table.text
    assert "Quarantined" not in table.text


def test_what_is_to_be_typed_names_odd_objects() -> None:
    """As a literal, whatever signs are in the name."""
    made, name = shop(), "`it's`"
    made.add(name, TASK, "orders")
    with opened(made) as client:
        page = got(client, f"/object/{id_of(name)}")
    assert r"WHERE object = '`it\'s`'" in page.text


def test_nothing_in_a_page_runs_or_leads_away() -> None:
    """Names and definitions are text, styles and scripts are files, and all is of this server."""
    made = shop()
    made.add(EVIL, TASK, "orders")
    made.fail(EVIL)
    with opened(made) as client:
        for path in ("/", "/warehouse", f"/object/{id_of(EVIL)}"):
            answer = client.get(path)
            assert EVIL not in answer.text
            page = Page(answer.text)
            assert [a["src"].split("?")[0] for a in page.having("script")] == ["/static/page.js"]
            for tag, attributes in page.tags:
                assert tag != "style"
                assert not [n for n in attributes if n == "style" or n.startswith("on")]
                for name in ("href", "src", "action"):
                    assert attributes.get(name, "/")[:1] in ("/", "#")
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "http" not in policy
        for name in ("page.css", "page.js"):
            text = client.get(f"/static/{name}").text
            assert not re.search(r"https?://|url\(|@import|innerHTML|eval\(", text)


@pytest.mark.parametrize("path", ["/", "/number", "/object/x", "/static/page.js", "/nowhere"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_reading_is_allowed(path: str, method: str) -> None:
    with opened(shop()) as client:
        answer = client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert "content-security-policy" in answer.headers


def _basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"me:{token}".encode()).decode()


ACCESS = [
    (None, "localhost", "", 200),
    (None, "127.0.0.1:8480", "", 200),
    (None, "[::1]:8480", "", 200),
    (None, "evil.example", "", 421),  # a name of another site that leads to this machine
    (TOKEN, "box.example", "", 401),
    (TOKEN, "box.example", _basic(TOKEN), 200),
    (TOKEN, "box.example", f"Bearer {TOKEN}", 200),
    (TOKEN, "box.example", _basic(TOKEN[:-1]), 401),
    (TOKEN, "box.example", _basic("é"), 401),
    (TOKEN, "box.example", "Basic %%%", 401),
    (TOKEN, "box.example", "Digest x", 401),
]


@pytest.mark.parametrize(("token", "host", "authorization", "status"), ACCESS)
def test_who_may_see_it(token: str | None, host: str, authorization: str, status: int) -> None:
    headers = {"host": host} | ({"authorization": authorization} if authorization else {})
    with opened(shop(), token) as client:
        for path in ("/", "/static/page.js", "/warehouse"):
            assert client.get(path, headers=headers).status_code == status
        # A token in an address is none: addresses are logged.
        if status == 401:
            assert client.get(f"/?token={TOKEN}", headers=headers).status_code == 401


def test_a_token_is_needed_where_others_reach() -> None:
    assert access.token_for("127.0.0.1", {}) == (None, False)
    made, is_new = access.token_for("0.0.0.0", {})
    assert is_new
    assert made is not None
    assert len(made) >= 32
    assert made != access.token_for("0.0.0.0", {})[0]
    variable = {access.TOKEN_VARIABLE: TOKEN}
    assert access.token_for("0.0.0.0", variable) == (TOKEN, False)
    assert access.token_for("127.0.0.1", variable) == (TOKEN, False)
    with pytest.raises(CtsqlError, match="not a valid token"):
        access.token_for("0.0.0.0", {access.TOKEN_VARIABLE: "short"})


def test_logs_that_cannot_be_read() -> None:
    """Without anything seen before: why, as a page. Later: what was seen, and that it is old."""
    made = shop()
    made.problem = error("STORAGE_ERROR", message="the disk is gone <b>")
    with opened(made) as client:
        answer = client.get("/")
        assert answer.status_code == 503
        assert "the disk is gone &lt;b&gt;" in answer.text
        made.problem = None
        assert "This is not new" not in got(client, "/").text
        made.problem = error("STORAGE_ERROR", message="the disk is gone")
        time.sleep(poller.POLL_SECONDS)
        page = got(client, "/")
        assert "This is not new" in page.text
        assert "clean_orders" in page.text


def test_a_look_that_hangs_holds_up_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "LATE_SECONDS", 0.2)
    monkeypatch.setattr(poller, "POLL_SECONDS", 0.0)
    made = shop()
    with opened(made) as client:
        got(client, "/")
        made.hangs.clear()
        try:
            for _ in range(3):
                begun = time.monotonic()
                assert "have not answered" in got(client, "/").text
                assert time.monotonic() - begun < 5
        finally:
            made.hangs.set()


def test_a_number_changes_with_what_pages_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read until somebody asks, and then no more often than once in a while."""
    monkeypatch.setattr(poller, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(poller, "REST_FACTOR", 0.0)
    made = shop()
    with opened(made) as client:
        assert made.looks == 0
        first = client.get("/number").text
        assert client.get("/number").text == first
        made.fail("audit_log")
        second = client.get("/number").text
        assert second != first
        assert "needs attention" in got(client, "/").text
        assert client.get("/number").text == second
        monkeypatch.setattr(poller, "POLL_SECONDS", 60.0)
        client.get("/number")
        looks = made.looks
        for path in ("/number", "/", "/number"):
            client.get(path)
        assert made.looks == looks


def test_the_same_address_twice() -> None:
    with site.served(ask, shop(), "shop", "127.0.0.1", 0) as page:
        assert page.new_token is None
        assert httpx.head(f"{page.address}number", timeout=60).status_code == 200
        port = int(page.address.rstrip("/").rpartition(":")[2])
        with (
            pytest.raises(CtsqlError, match="no page can be served"),
            site.served(ask, shop(), "shop", "127.0.0.1", port),
        ):
            pass


def test_a_missing_extra_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctsql.cli.serve.find_spec", lambda _: None)
    with pytest.raises(CtsqlError, match="EXTRA_MISSING") as found:
        check_installed()
    assert found.value.hint == "Type: pip install 'ctsql[serve]'"
    with pytest.raises(CtsqlError) as found:
        serving_postgres(Mock(), "127.0.0.1", 0)
    assert found.value.hint == "Type: pip install 'ctsql[postgres]'"


GRAPHS = st.integers(0, 25).flatmap(
    lambda n: st.tuples(
        st.just([f"n{i}" for i in range(n)]),
        st.lists(
            st.tuples(st.integers(0, max(n - 1, 0)), st.integers(0, max(n - 1, 0))), max_size=60
        ),
    )
)


@given(GRAPHS)
def test_a_layout_has_a_place_of_its_own_for_each(
    made: tuple[list[str], list[tuple[int, int]]],
) -> None:
    """No two overlap, and what is read is left of what reads it."""
    names, pairs = made
    acyclic = [(f"n{min(p)}", f"n{max(p)}") for p in pairs if names and min(p) != max(p)]
    found = layout(names, acyclic)
    assert set(found) == set(names)
    for a, b in acyclic:
        assert found[a][0] < found[b][0]
    columns: dict[int, list[float]] = {}
    for column, row in found.values():
        assert column >= 0
        assert row >= 0
        columns.setdefault(column, []).append(row)
    for rows in columns.values():
        assert all(b - a >= 1 for a, b in pairwise(sorted(rows)))
    circle = layout(names, [*acyclic, *((b, a) for a, b in acyclic)])
    assert set(circle) == set(names)


def test_many_readers_of_one_table_are_no_tower() -> None:
    names = ["feed", *(f"v{n}" for n in range(200))]
    found = layout(names, [("feed", n) for n in names[1:]])
    assert max(row for _, row in found.values()) < 24
    assert found["feed"][0] == 0


def test_bars_are_as_high_as_their_values() -> None:
    last = made_pages.last_refreshes("v", 3)
    found = drawing.bars(last, [None, 5.0, 10.0])
    assert [b.value for b in found.bars] == [10.0, 5.0, None]
    heights = [b.height for b in found.bars]
    assert heights == [drawing.BARS_HEIGHT, drawing.BARS_HEIGHT / 2, drawing.BAR_HEIGHT_MIN]
    assert (found.most, found.median) == (10.0, 10.0)
    assert drawing.bars((), []).bars == ()


def test_the_last_change_is_searched_in_new_commits_only() -> None:
    from tests.unit.runtime.monitoring.test_refreshes import ADD, Log, made as commit

    log = Log([commit(v, 1_000 * v, None, None, ADD) for v in range(5_000)])
    log.commits += [commit(v, 1_000 * v, None) for v in range(5_000, 5_003)]
    change = last_change(log, None)  # type: ignore[arg-type]
    assert (change.version, change.at) == (5_002, datetime.fromtimestamp(4_999, UTC))
    assert log.read == {4_999, 5_000, 5_001, 5_002}
    log.read.clear()
    log.commits.append(commit(5_003, 9_000_000, None))
    assert last_change(log, change).at == change.at  # type: ignore[arg-type]
    assert log.read == {5_003}
