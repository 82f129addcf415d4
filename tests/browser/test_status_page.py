"""The status page as a person sees it: in a headless Chromium, the system's own."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from ctsql.export.side_reader import SideReader
from ctsql.status_page import site
from ctsql.status_page.access import TOKEN_VARIABLE
from ctsql.status_page.lookup import Lookup
from tests.helpers.made_pages import EVIL, TASK, MadeWarehouse, ask, id_of, large, shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from ctsql.api import Connection

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WAIT_MS = 20_000
NEW_MS = 2_000
"""What is new in the logs is on the page within this time."""


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    sync_api = pytest.importorskip("playwright.sync_api", reason="Type: make browser")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program is not None, "No Chromium was found. Type: sudo apt install chromium"
    with sync_api.sync_playwright() as driver:
        # Root may not use its sandbox, as in a container.
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def visited(browser: "Browser", address: str, **context: object) -> "Iterator[Page]":
    """A page that is live; it may complain of nothing and ask no other server for anything."""
    own = urlsplit(address).netloc
    complaints: list[str] = []
    with browser.new_context(**context) as opened:  # type: ignore[arg-type]
        page = opened.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_selector('#link[data-state="on"]')
        yield page
        assert complaints == []
        assert {urlsplit(url).netloc for url in asked} == {own}


@contextmanager
def served(made: MadeWarehouse) -> Iterator[str]:
    with site.served(ask, made, "shop", "127.0.0.1", 0) as page:
        yield page.address


def box(name: str, state: str) -> str:
    return f'a.box[data-name="{name}"][data-state="{state}"]'


def test_a_failure_turns_red_and_heals(browser: "Browser") -> None:
    """Without reloading; what has the focus keeps it, and a screen reader is told."""
    made = shop()
    with served(made) as address, visited(browser, address) as page:
        assert page.locator("a.box").count() == 13
        assert page.locator("path.line").count() == len(made.reads)
        page.focus(box("audit_log", "up to date"))
        page.fill("#filter", "clean")
        assert page.locator("tr[data-object]:visible").count() == 1
        page.evaluate("window.stays = true")
        made.fail("clean_orders")
        page.wait_for_selector(box("clean_orders", "failed"), timeout=NEW_MS)
        assert "clean_orders: failed" in page.locator("#news").inner_text()
        frame = page.locator(box("clean_orders", "failed") + " .frame")
        red = "getComputedStyle(e).stroke"
        page.wait_for_function(
            f"(e) => {red} === 'rgb(194, 42, 31)'", arg=frame.element_handle(), timeout=NEW_MS
        )
        assert "RETRY" in page.locator("article.problem").inner_text()
        assert page.evaluate("document.activeElement.id") == "filter"
        assert page.locator("tr[data-object]:visible").count() == 1
        made.heal("clean_orders")
        page.wait_for_selector(box("clean_orders", "up to date"), timeout=NEW_MS)
        assert page.locator("article.problem").count() == 0
        assert page.evaluate("window.stays")


def test_by_keyboard_alone(browser: "Browser") -> None:
    with served(shop()) as address, visited(browser, address) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "filter"
        page.keyboard.type("sessions")
        page.keyboard.press("Escape")
        assert page.locator("tr[data-object]:visible").count() == 13
        page.focus(box("sessions", "up to date"))
        assert page.locator("path.line.near").count() == 2
        page.keyboard.press("Enter")
        page.wait_for_url("**/object/*")
        assert page.locator("h1").inner_text().startswith("sessions")


def test_every_picture_has_words(browser: "Browser") -> None:
    """Headings in order, a name for every link, drawing and region, a table for every chart."""
    made = shop()
    made.fail("clean_orders")
    with served(made) as address:
        for path in ("", "warehouse", f"object/{id_of('order_lines')}"):
            with visited(browser, address + path) as page:
                levels = page.evaluate(
                    "[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])"
                )
                assert levels[0] == 1
                assert levels.count(1) == 1
                unnamed = page.evaluate(
                    "[...document.querySelectorAll('a, svg[role], [role=region], section, nav')]"
                    ".filter(e => !e.getAttribute('aria-label') && !e.getAttribute("
                    "'aria-labelledby') && !e.textContent.trim()).length"
                )
                assert unnamed == 0
                assert page.locator("table").count() >= 1
                assert page.locator("table:not(:has(th[scope=col]))").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(browser: "Browser", scheme: str) -> None:
    """The contrast of every state and of dim text is 4.5 or more (WCAG 2.2, 1.4.3)."""
    script = """() => {
      const rgb = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const light = (c) => { const [r, g, b] = rgb(c).map(v => (v /= 255) <= 0.04045
        ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b; };
      const behind = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor;
        if (c !== 'rgba(0, 0, 0, 0)') return c; } return 'rgb(255, 255, 255)'; };
      return [...document.querySelectorAll('.state, .dim, .hint, small, a, h1, td, .message, dt')]
        .filter(e => e.textContent.trim() && !e.closest('svg') && !e.closest('.skip'))
        .map(e => { const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
          return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.trim()]; })
        .filter(([ratio]) => ratio < 4.5);
    }"""
    made = shop()
    made.fail("clean_orders")
    with served(made) as address:
        for path in ("", "warehouse", f"object/{id_of('clean_orders')}"):
            with visited(browser, address + path, color_scheme=scheme) as page:
                assert page.evaluate(script) == []


def test_on_a_phone_nothing_is_cut_off(browser: "Browser") -> None:
    """The page itself does not scroll sideways, and what failed is on the first screen."""
    made = shop()
    made.fail("clean_orders")
    made.add(EVIL, TASK, "orders")
    made.add("x" * 120, TASK, "orders")
    made.fail("x" * 120)
    phone = {"viewport": {"width": 360, "height": 740}}
    with served(made) as address:
        for path in ("", "warehouse", f"object/{id_of('x' * 120)}"):
            with visited(browser, address + path, **phone) as page:
                assert page.evaluate("document.documentElement.scrollWidth") <= 360
        with visited(browser, address, **phone) as page:
            problem = page.locator("article.problem").first.bounding_box()
            assert problem is not None
            assert problem["y"] < 300


def test_two_hundred_objects(browser: "Browser") -> None:
    """None of the boxes covers another one, and the whole page is there within a second."""
    made = large()
    made.fail("clean_05")
    with served(made) as address, visited(browser, address) as page:
        done = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
        assert done < 2_000
        overlaps = page.evaluate("""() => {
          const all = [...document.querySelectorAll('.box .frame')].map(e => e.getBBox());
          return all.filter((a, n) => all.slice(n + 1).some(b => a.x < b.x + b.width
            && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)).length;
        }""")
        assert overlaps == 0
        page.click("#count-failed")
        assert page.locator("tr[data-object]:visible").count() == 1


def test_a_token_is_asked_for(browser: "Browser", monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser's own dialog takes it; nothing is shown without."""
    from playwright import sync_api

    monkeypatch.setenv(TOKEN_VARIABLE, "0123456789abcdef0123")
    with served(shop()) as address:
        with browser.new_context() as opened:
            page = opened.new_page()
            with pytest.raises(sync_api.Error, match="AUTH"):  # nobody answers the dialog
                page.goto(address)
        given = {"username": "me", "password": "0123456789abcdef0123"}
        with visited(browser, address, http_credentials=given) as page:
            assert page.locator("a.box").count() == 13


@pytest.mark.spark
def test_a_running_service(
    browser: "Browser", connect: "Callable[[], Connection]", warehouse: Path
) -> None:
    """A task fails on a row, and heals; a refresh is there within two seconds of its commit."""
    con, writer = connect(), connect()
    con.execute(
        "CREATE TABLE orders (id INT, s STRING);"
        "CREATE CONTINUAL TASK numbers ON INPUT orders AS"
        " (INSERT INTO numbers SELECT id, CAST(s AS INT) AS n FROM orders);"
        "CREATE MATERIALIZED VIEW totals AS SELECT sum(n) AS n FROM numbers"
    )
    stop, wrote = threading.Event(), threading.Event()
    run = threading.Thread(
        target=lambda: con.run(
            stop=stop, interval=0.05, on_event=lambda e: wrote.set() if e.name == "totals" else None
        )
    )
    with (
        site.served(SideReader(con), Lookup(), "w", "127.0.0.1", 0) as served_at,
        visited(browser, served_at.address) as page,
    ):
        run.start()
        try:
            writer.execute("INSERT INTO orders VALUES (1, '10')")
            assert wrote.wait(120)
            page.click(box("totals", "up to date"))
            page.wait_for_selector('#link[data-state="on"]')
            before = page.locator("#refreshes tbody tr").count()
            wrote.clear()
            writer.execute("INSERT INTO orders VALUES (2, '20')")
            assert wrote.wait(120)
            newer = f"#refreshes tbody tr:nth-child({before + 1})"
            page.wait_for_selector(newer, state="attached", timeout=NEW_MS)
            page.click("#home")
            writer.execute("INSERT INTO orders VALUES (3, 'x')")
            page.wait_for_selector(box("numbers", "failed"), timeout=120_000)
            assert "ALTER CONTINUAL TASK numbers" in page.locator("article.problem").inner_text()
            writer.execute("ALTER CONTINUAL TASK numbers SKIP")
            page.wait_for_selector(box("numbers", "up to date"), timeout=120_000)
        finally:
            stop.set()
            run.join(120)
