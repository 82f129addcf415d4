"""Access to the status page, and what a browser may do with it.

On a local address no token is needed if the request's Host header names a local address. A page of
another site, whose name resolves to this machine, is therefore refused (DNS rebinding). On other
addresses, and whenever a token is set, a request needs the token: as the password of HTTP Basic,
which every browser asks for and remembers, or as a Bearer token. It is never part of an address, so
logs and histories do not contain it. Requests other than GET and HEAD are refused first.

The content security policy allows files of this server alone, and no script or style inside a page:
a name or a definition could not run as a script even if it were not escaped.
"""

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ctsql.catalog.errors import misuse
from ctsql.catalog.locations import is_loopback

TOKEN_VARIABLE = "CTSQL_SERVE_TOKEN"  # noqa: S105  its name
TOKEN_LETTERS_MIN = 16
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def token_for(host: str, environment: Mapping[str, str]) -> tuple[str | None, bool]:
    """The token that requests need, and whether it is new; raises INVALID_USAGE if too short."""
    token = environment.get(TOKEN_VARIABLE)
    if token:
        if len(token) < TOKEN_LETTERS_MIN or not token.isascii() or not token.isprintable():
            message = f"{TOKEN_VARIABLE} is not a valid token"
            detail = f"It needs {TOKEN_LETTERS_MIN} or more ASCII characters."
            raise misuse(message, detail)
        return token, False
    if is_loopback(host):
        return None, False
    return secrets.token_urlsafe(24), True


def host_name(header: str) -> str:
    """The host of a Host header, without the port.

    >>> host_name("localhost:80"), host_name("[::1]:80"), host_name("Box"), host_name("")
    ('localhost', '::1', 'box', '')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def given_token(authorization: str) -> str:
    """The token of an Authorization header; empty if there is none.

    >>> given_token("Bearer abc"), given_token("Basic Om9wZW4="), given_token("Basic ?")
    ('abc', 'open', '')
    """
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(rest, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


class Guard:
    """Refuses requests without access, and adds the headers; wraps the application.

    ``hosts`` are the names that requests may use if no ``token`` is needed (None).
    """

    def __init__(self, app: ASGIApp, *, token: str | None, hosts: frozenset[str]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # the application handles only HTTP

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        await (self._app if refusal is None else refusal)(scope, receive, guarded)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        if method not in ("GET", "HEAD"):
            return PlainTextResponse("This page is read-only.", 405, {"allow": "GET, HEAD"})
        if self._token is None:
            if host_name(headers.get("host", "")) in self._hosts:
                return None
            return PlainTextResponse("Unknown host. Open it by the address it is served at.", 421)
        token = given_token(headers.get("authorization", ""))
        if hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        return PlainTextResponse(
            "A token is needed: give it as the password, with any user name.",
            401,
            {"www-authenticate": 'Basic realm="ctsql", charset="UTF-8"'},
        )
