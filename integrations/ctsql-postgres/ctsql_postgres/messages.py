"""The messages of PostgreSQL's protocol 3.0, as bytes; and SCRAM-SHA-256.

Source: chapter "Frontend/Backend Protocol" of PostgreSQL's documentation; RFC 5802 and RFC 7677.
"""

import base64
import hashlib
import hmac
import os
import secrets
import struct
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ctsql_postgres.values import PgColumn, sized

PROTOCOL, CANCEL, TLS, GSS = 196_608, 80_877_102, 80_877_103, 80_877_104
"""The codes that begin the first message of a connection."""
AUTHENTICATED = struct.pack("!cii", b"R", 8, 0)
PARSED, BOUND, CLOSED, NO_DATA = (kind + b"\0\0\0\4" for kind in (b"1", b"2", b"3", b"n"))
EMPTY, SUSPENDED, COPY_DONE = (kind + b"\0\0\0\4" for kind in (b"I", b"s", b"c"))


def message(kind: bytes, body: bytes) -> bytes:
    """Frame a message: its kind, its length, its body."""
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """Encode a text, with a zero byte at its end."""
    return value.encode("utf-8", "replace").replace(b"\0", b"") + b"\0"


def parameter_status(name: str, value: str) -> bytes:
    """Report a setting to the client."""
    return message(b"S", text(name) + text(value))


def key_data(process: int, secret: int) -> bytes:
    """The process and secret with which the client can cancel."""
    return message(b"K", struct.pack("!II", process, secret))


def ready(status: str) -> bytes:
    """Ready for a statement: ``I`` outside a transaction, ``T`` in one, ``E`` in a failed one."""
    return message(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """A statement has ended, with its tag."""
    return message(b"C", text(tag))


def fields(kind: bytes, by_code: Mapping[str, str | None]) -> bytes:
    """An error (``E``) or a notice (``N``), by its fields."""
    return message(
        kind,
        b"".join(code.encode() + text(value) for code, value in by_code.items() if value) + b"\0",
    )


def row_description(columns: Sequence[tuple[str, PgColumn]], formats: Sequence[int]) -> bytes:
    """Names and types of the columns; ``formats``: 0 for text, 1 for binary, one of each."""
    parts = [struct.pack("!h", len(columns))]
    for (name, column), form in zip(columns, formats, strict=True):
        parts.append(text(name))
        parts.append(struct.pack("!ihIhih", 0, 0, column.oid, column.size, column.modifier, form))
    return message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f"!h{len(oids)}I", len(oids), *oids))


def data_row(values: Iterable[bytes | None], count: int) -> bytes:
    """A row of encoded values."""
    return message(b"D", struct.pack("!h", count) + b"".join(map(sized, values)))


def copy_out(columns: int, *, binary: bool) -> bytes:
    """COPY begins."""
    return message(b"H", struct.pack(f"!bh{columns}h", binary, columns, *[int(binary)] * columns))


class Reader:
    """Reads the fields of a message; raises struct.error, ValueError: it has another form."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    def numbers(self, layout: str) -> tuple[int, ...]:
        """Numbers in a layout of :mod:`struct`, without its order of bytes."""
        values = struct.unpack_from("!" + layout, self._body, self._position)
        self._position += struct.calcsize("!" + layout)
        return values

    def list_of(self, layout: str) -> tuple[int, ...]:
        """A count, and that number of numbers."""
        (count,) = self.numbers("h")
        return self.numbers(f"{max(count, 0)}{layout}")

    def kind(self) -> bytes:
        """A letter."""
        self._position += 1
        return self._body[self._position - 1 : self._position]

    def text(self) -> str:
        """A text."""
        end = self._body.index(0, self._position)
        value = self._body[self._position : end].decode()
        self._position = end + 1
        return value

    def value(self) -> bytes | None:
        """A value with its length."""
        (size,) = self.numbers("i")
        if size < 0:
            return None
        value = self._body[self._position : self._position + size]
        if len(value) < size:
            raise ValueError("a value is cut off")
        self._position += size
        return value

    def rest(self) -> bytes:
        """All that follows."""
        return self._body[self._position :]


# ---- SCRAM-SHA-256


ITERATIONS = 4096


@dataclass(frozen=True, slots=True)
class Verifier:
    """The server's data for checking a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, password: str) -> "Verifier":
        """The data for a password, with a new salt."""
        salt = os.urandom(16)
        prepared = unicodedata.normalize("NFKC", password)  # as clients do, by RFC 4013
        salted = hashlib.pbkdf2_hmac("sha256", prepared.encode(), salt, ITERATIONS)
        client_key = _hmac(salted, b"Client Key")
        return cls(salt, hashlib.sha256(client_key).digest(), _hmac(salted, b"Server Key"))


class Scram:
    """One exchange; raises ValueError for a wrong password or an invalid message."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._text = b""
        self._nonce = b""
        self._header = b""

    def first(self, body: bytes) -> bytes:
        """The challenge, for the client's first message."""
        binding, _, bare = body.partition(b",")
        if binding not in (b"n", b"y"):
            raise ValueError("channel binding was not offered")
        name, _, bare = bare.partition(b",")
        self._header = binding + b"," + name + b","
        nonce = dict(part.split(b"=", 1) for part in bare.split(b","))[b"r"]
        self._nonce = nonce + secrets.token_urlsafe(18).encode()
        salt = base64.b64encode(self._verifier.salt)
        challenge = b"r=%b,s=%b,i=%d" % (self._nonce, salt, ITERATIONS)
        self._text = bare + b"," + challenge
        return challenge

    def last(self, body: bytes) -> bytes:
        """The server's signature, for the client's proof."""
        without, _, proof = body.rpartition(b",p=")
        given = dict(part.split(b"=", 1) for part in without.split(b","))
        if given[b"r"] != self._nonce or base64.b64decode(given[b"c"]) != self._header:
            raise ValueError("another exchange")
        signed = self._text + b"," + without
        signature = _hmac(self._verifier.stored_key, signed)
        client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key):
            raise ValueError("the password is wrong")
        return b"v=" + base64.b64encode(_hmac(self._verifier.server_key, signed))


def _hmac(key: bytes, value: bytes) -> bytes:
    return hmac.digest(key, value, "sha256")
