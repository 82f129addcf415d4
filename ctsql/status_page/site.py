"""The pages: HTML from templates, the style sheet and the script, and a number of changes.

    GET /                 the graph and all objects
    GET /object/ID        one object, by its id: a name would be in the addresses that proxies log
    GET /warehouse        the last refreshes and failures
    GET /number           a number that grows whenever something changes
    GET /static/FILE      the style sheet, the script, the icon

A page is complete HTML without the script. The script asks for the number twice a second; on a
change it fetches the page again and replaces the parts that differ.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.locations import is_loopback
from ctsql.catalog.schemas import quote_text
from ctsql.export import http_server
from ctsql.status_page import drawing
from ctsql.status_page.access import LOCAL_NAMES, TOKEN_VARIABLE, Guard, token_for
from ctsql.status_page.lookup import Lookup
from ctsql.status_page.poller import Ask, Poller

KINDS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
PROBLEMS_MAX = 10  # how many failed objects are shown in full before the graph


class Site:
    """The pages of one warehouse; ``title`` is its name."""

    def __init__(self, ask: Ask, lookup: Lookup, title: str) -> None:
        self._title = title
        self._poller = Poller(ask, lookup)
        folder = files("ctsql.status_page") / "static"
        self._files = {name: (folder / name).read_bytes() for name in KINDS}
        self._templates = _environment(
            hashlib.sha256(b"".join(self._files.values())).hexdigest()[:12]
        )

    def app(self, *, token: str | None, hosts: frozenset[str]) -> Guard:
        """The application; all of it is inside the guard, the page for a defect included."""
        routes = [
            Route("/", self._overview, methods=["GET"]),
            Route("/warehouse", self._warehouse, methods=["GET"]),
            Route("/object/{id}", self._object, methods=["GET"]),
            Route("/number", self._number, methods=["GET"]),
            Route("/static/{name}", self._file, methods=["GET"]),
        ]
        handlers: dict[Any, Callable[[Request, Exception], Any]] = {
            CtsqlError: self._unreadable,
            TimeoutError: self._unreadable,
            HTTPException: self._refused,
        }
        pages = Starlette(routes=routes, exception_handlers=handlers)
        return Guard(pages, token=token, hosts=hosts)

    def _page(self, template: str, status: int = 200, **context: object) -> HTMLResponse:
        text = self._templates.get_template(template).render(
            title=self._title, looked_at=datetime.now(UTC), **context
        )
        return HTMLResponse(text, status, {"cache-control": "no-store"})

    def _overview(self, _: Request) -> Response:
        latest = self._poller.latest()
        return self._page("overview.html", seen=latest, graph=drawing.graph(latest.overview))

    def _object(self, request: Request) -> Response:
        latest = self._poller.latest()
        details = self._poller.details(request.path_params["id"])
        if details is None:
            raise HTTPException(404, "There is no such object; it may have been dropped.")
        last = details.refreshes
        return self._page(
            "object.html",
            seen=latest,
            details=details,
            seconds=drawing.bars(last, [r.seconds for r in last]),
            rows=drawing.bars(last, [drawing.rows_of(r) for r in last]),
            strategies=drawing.strategies(last),
        )

    def _warehouse(self, _: Request) -> Response:
        latest = self._poller.latest()
        history = self._poller.history()
        ids = {o.name: o.id for o in latest.overview.objects}
        return self._page("warehouse.html", seen=latest, history=history, ids=ids)

    def _number(self, _: Request) -> Response:
        number = str(self._poller.latest().number)
        return PlainTextResponse(number, headers={"cache-control": "no-store"})

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            raise HTTPException(404, "There is no such file.")
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        return Response(self._files[name], 200, headers, KINDS[name])

    def _unreadable(self, _: Request, problem: Exception) -> Response:
        """The page for unreadable logs without an earlier state."""
        known = isinstance(problem, CtsqlError)
        return self._page(
            "problem.html",
            503,
            message=problem.message if known else "the logs of the warehouse cannot be read",  # type: ignore[attr-defined]
            detail=problem.detail if known else "",  # type: ignore[attr-defined]
            hint=problem.hint if known else "",  # type: ignore[attr-defined]
        )

    def _refused(self, request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        if request.url.path.startswith(("/number", "/static")):
            return PlainTextResponse(problem.detail, problem.status_code)
        return self._page(
            "problem.html", problem.status_code, message=problem.detail, detail="", hint=""
        )


def _environment(version: str) -> Environment:
    """The templates; every value is escaped. A new ``version`` makes browsers load files."""
    environment = Environment(
        loader=PackageLoader("ctsql.status_page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"version": version, "problems_max": PROBLEMS_MAX}
    environment.globals |= {"node_width": drawing.NODE_WIDTH, "node_height": drawing.NODE_HEIGHT}
    environment.globals |= {"bars_width": drawing.BARS_WIDTH, "bars_height": drawing.BARS_HEIGHT}
    for name in (
        "brief",
        "duration",
        "number",
        "size",
        "instant",
        "clock_text",
        "sentences",
        "slug",
    ):
        environment.filters[name] = getattr(drawing, name)
    environment.filters["literal"] = quote_text
    environment.globals["parts"] = environment.get_template("parts.html").module
    return environment


@dataclass(frozen=True, slots=True)
class RunningPage:
    """A served page; ``new_token`` is the token created for it, if any."""

    address: str
    new_token: str | None

    @property
    def notes(self) -> list[str]:
        """The text for the person who started it; only this text has the token."""
        lines = [f"status page at {self.address}"]
        if self.new_token is not None:
            lines.append(
                f"its token, the password that a browser asks for: {self.new_token}\n"
                f"another one is made at each start unless {TOKEN_VARIABLE} is set"
            )
        return lines


@contextmanager
def served(ask: Ask, lookup: Lookup, title: str, host: str, port: int) -> Iterator[RunningPage]:
    """Serve a warehouse's page inside; ``title`` is its name. Port 0 is any free one."""
    token, is_new = token_for(host, os.environ)
    site = Site(ask, lookup, title)
    app = site.app(token=token, hosts=LOCAL_NAMES | ({host} if is_loopback(host) else set()))
    with http_server.served(app, host, port, "page") as address:
        yield RunningPage(f"{address}/", token if is_new else None)
