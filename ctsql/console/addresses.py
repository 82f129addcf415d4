"""Addresses at which something is served, as the command line takes them."""

HOST = "127.0.0.1"


def parse_address(text: str) -> tuple[str, int]:
    """``[host:]port``; a host of IPv6 is in brackets.

    >>> parse_address("9464"), parse_address("0.0.0.0:80"), parse_address("[::1]:80")
    (('127.0.0.1', 9464), ('0.0.0.0', 80), ('::1', 80))

    Raises ValueError if it is none.
    """
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535 or (colon and not host):
        raise ValueError(f"{text!r} is no [host:]port")
    return host.removeprefix("[").removesuffix("]") or HOST, int(port)
