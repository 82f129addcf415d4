"""Access of clients: address, password, TLS, and the number of connections.

On a loopback address no password is needed unless one is set. On any other address a client needs
the password (SCRAM-SHA-256) and TLS.
"""

import os
import secrets
import ssl
from dataclasses import dataclass

from ctsql.catalog.errors import misuse
from ctsql.catalog.locations import is_loopback

PASSWORD_VARIABLE = "CTSQL_POSTGRES_PASSWORD"  # noqa: S105  its name
CONNECTIONS_MAX = 100


@dataclass(frozen=True, slots=True)
class Access:
    """The address for clients, and its requirements.

    Attributes:
        password: None: none is needed. is_new: whether it was generated here, and must be printed.
        tls: None: connections are not encrypted.
        connections_max: the most clients that may be connected at a time.
    """

    host: str
    port: int
    password: str | None = None
    is_new: bool = False
    tls: ssl.SSLContext | None = None
    connections_max: int = CONNECTIONS_MAX

    @property
    def needs_tls(self) -> bool:
        """Whether a client must encrypt."""
        return not is_loopback(self.host)


def access_for(
    host: str,
    port: int,
    *,
    certificate: str | None = None,
    key: str | None = None,
    connections_max: int | None = None,
) -> Access:
    """The requirements at an address.

    Args:
        certificate, key: files with PEM.

    Raises:
        INVALID_USAGE: other machines reach the address and there is no certificate, or it cannot be
            used.
    """
    password, is_local = os.environ.get(PASSWORD_VARIABLE) or None, is_loopback(host)
    if not is_local and certificate is None:
        message = f"clients on other machines reach {host}, and need TLS"
        raise misuse(message, "Give its files: --tls-certificate FILE --tls-key FILE.")
    is_new = password is None and not is_local
    if is_new:
        password = secrets.token_urlsafe(24)
    tls = None if certificate is None else _tls(certificate, key)
    return Access(host, port, password, is_new, tls, connections_max or CONNECTIONS_MAX)


def _tls(certificate: str, key: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        what = certificate if key is None else f"{certificate} with {key}"
        raise misuse(f"{what} is no certificate with its key", f"{problem}.") from problem
    return context
