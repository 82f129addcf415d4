"""The rows of ``COPY ... TO STDOUT`` as text, CSV or binary.

Source: the page of COPY in PostgreSQL's documentation.
"""

import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence

from ctsql_postgres import messages as pg
from ctsql_postgres.statements import CopyOut, Outcome
from ctsql_postgres.values import Encode, sized

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


async def copy_lines(
    outcome: Outcome, send: Callable[[bytes], None], flush: Callable[[], Awaitable[None]]
) -> None:
    """Send all rows of an outcome, and the tag."""
    assert outcome.columns is not None
    assert outcome.copy is not None
    how, columns = outcome.copy, outcome.columns
    is_binary = how.form == "binary"
    encoders = [column.encoder(binary=is_binary) for _, column in columns]
    send(pg.copy_out(len(columns), binary=is_binary))
    if how.header and not is_binary:
        send(pg.message(b"d", _line([name for name, _ in columns], how)))
    head = _SIGNATURE if is_binary else b""  # in one message with what follows
    while not outcome.is_over:
        for row in await outcome.next():
            send(pg.message(b"d", head + _row(row, encoders, how)))
            head = b""
        await flush()
    if is_binary:
        send(pg.message(b"d", head + struct.pack("!h", -1)))
    send(pg.COPY_DONE)
    send(pg.complete(f"COPY {outcome.count}"))


def _row(row: Sequence[object], encoders: Sequence[Encode], how: CopyOut) -> bytes:
    pairs = zip(encoders, row, strict=True)
    encoded = (None if value is None else encode(value) for encode, value in pairs)
    if how.form == "binary":
        return struct.pack("!h", len(row)) + b"".join(map(sized, encoded))
    return _line([None if value is None else value.decode() for value in encoded], how)


def _line(values: Sequence[str | None], how: CopyOut) -> bytes:
    return (how.delimiter.join(_texts(values, how)) + "\n").encode()


def _texts(values: Sequence[str | None], how: CopyOut) -> Iterator[str]:
    for value in values:
        if value is None:
            yield how.null
        elif how.form == "text":
            text = value.translate(_ESCAPED)
            yield (
                text if how.delimiter == "\t" else text.replace(how.delimiter, f"\\{how.delimiter}")
            )
        else:
            special = (how.delimiter, how.quote, "\n", "\r")
            is_plain = value != how.null and value != "\\." and not any(s in value for s in special)
            quoted = how.quote + value.replace(how.quote, how.quote * 2) + how.quote
            yield value if is_plain else quoted
