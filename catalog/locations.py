"""The text of a path or URI, as people give it."""


def location_fault(text: str) -> str | None:
    """What is wrong with a location, whatever is at it; None if nothing is.

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
