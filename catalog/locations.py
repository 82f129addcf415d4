"""Texts of paths, URIs and network addresses, as users type them."""

from ipaddress import ip_address


def location_fault(text: str) -> str | None:
    """The fault in the text of a location; None if there is none.

    >>> [location_fault(t) for t in ("w", "/w", "file:w", "file:///w", "s3a://bucket/w")]
    [None, None, None, None, None]
    >>> location_fault(" "), location_fault("file:"), location_fault("file://")
    ('is empty', 'has no path', 'has no path')
    >>> location_fault("file://w/x")
    'has the host "w"; a file: URI has none, as in file:///w/x'
    """
    if not text.strip():
        return "is empty"
    scheme, _, path = text.partition(":")
    if scheme.lower() != "file" or scheme == text:
        return None
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host:
            return f'has the host "{host}"; a file: URI has none, as in file:///{host}{slash}{rest}'
        path = slash + rest
    return None if path else "has no path"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "box.example")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
