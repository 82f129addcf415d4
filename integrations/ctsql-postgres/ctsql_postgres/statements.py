"""Runs the statements of one client: by ctsql, by the catalog, or in the session itself.

A transaction follows PostgreSQL's rules: after an error it accepts only ROLLBACK. A statement that
returns rows is started once, when the client asks for its columns or executes it. Its rows are
fetched in portions, and other clients' statements run in between.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from ctsql.catalog.errors import CtsqlError, bad_option, error, not_supported
from ctsql.catalog.names import quote
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Source, Span
from ctsql_postgres import dialect
from ctsql_postgres.catalog import Asking, Catalog
from ctsql_postgres.dialect import Translated
from ctsql_postgres.values import TEXT, PgColumn, column_of

if TYPE_CHECKING:
    from ctsql.api import Connection
    from ctsql.results.result import Result

PORTION = 1_000
"""The number of rows in a portion."""
VERSION = "15.0"
_QUERIES = ("select", "with", "values", "table", "from", "(")
_READS = (*_QUERIES, "show", "describe", "desc", "explain")
_WRITES = ("insert", "update", "delete", "merge")
_TIMEOUT = re.compile(r"\s*(\d+)\s*(ms|s|min|h)?\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_CTSQL_SETTINGS = ("isolation",)
_HAVE_ROWS = (*_READS, "verify", "maintain", "blame", "why")
_JAVA = ("reflect", "try_reflect", "java_method")
_FORMATS = ("csv", "json", "parquet", "orc", "avro", "text", "binaryfile", "delta")
T = TypeVar("T")


class Warn(Exception):
    """A statement that did nothing, with a warning and the tag that ends it."""

    def __init__(self, tag: str, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.tag, self.sqlstate = tag, sqlstate


@dataclass(slots=True)
class Outcome:
    """The result of a statement: rows, which are fetched in portions, or a tag only.

    ``columns`` is None for a statement without rows.
    """

    columns: list[tuple[str, PgColumn]] | None = None
    tag: str = ""
    notices: Sequence[str] = ()
    fetch: Callable[[int], Awaitable[list[tuple[Any, ...]]]] | None = None
    count: int = 0
    is_over: bool = False
    copy: "CopyOut | None" = None

    async def next(self, size: int = 0) -> list[tuple[Any, ...]]:
        """The next rows, at most ``size`` if it is not 0; ``is_over`` is set after the last."""
        assert self.fetch is not None  # it has columns
        wanted = min(size or PORTION, PORTION)
        rows = await self.fetch(wanted)
        self.count += len(rows)
        self.is_over = len(rows) < wanted
        return rows


@dataclass(frozen=True, slots=True)
class CopyOut:
    """How COPY ... TO STDOUT writes rows."""

    form: str = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'


def in_memory(
    columns: list[tuple[str, PgColumn]], rows: list[tuple[Any, ...]], tag: str
) -> Outcome:
    """An outcome of rows in memory."""
    left = list(rows)

    async def fetch(size: int) -> list[tuple[Any, ...]]:
        taken, left[:] = left[:size], left[size:]
        return taken

    return Outcome(columns, tag, fetch=fetch)


def one_text(name: str, value: str, tag: str) -> Outcome:
    """An outcome of one row with a text."""
    return in_memory([(name, PgColumn(TEXT))], [(value,)], tag)


@dataclass(slots=True)
class Prepared:
    """A statement of the extended protocol; None is an empty one."""

    statement: Translated | None
    oids: list[int]


@dataclass(slots=True)
class Session:
    """The state of one client.

    Attributes:
        turn: runs a function in the engine's thread, in the order of arrival.
        settings: PostgreSQL's settings, by their lower-case names.
    """

    connection: "Connection"
    catalog: "Catalog"
    turn: Callable[[Callable[[], T]], Awaitable[T]]
    user: str
    database: str
    process: int = 0
    prepared: dict[str, Prepared] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    savepoints: dict[str, int] = field(default_factory=dict)
    changes: int = 0  # statements of the open transaction that change rows
    only_reads: bool = False  # as the client has asked for this transaction
    reads_by_default: bool = False
    cursors: dict[str, Outcome] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The state of the transaction, as the protocol spells it."""
        if self.failed:
            return "E"
        return "T" if self.connection.in_transaction else "I"

    def has_rows(self, statement: Translated) -> bool:
        """Whether a statement returns rows."""
        first = statement.words[0]
        if first == "with":
            depth = 0
            for before, token in pairwise(statement.tokens):
                depth += {"(": 1, ")": -1}.get(before.text, 0)
                if depth == 0 and before.text == ")" and token.word in _WRITES:
                    return False
        return first in _HAVE_ROWS or first == "fetch"

    async def begin(self, statement: Translated, values: Sequence[object]) -> Outcome:
        """Start a statement; its rows are fetched from the outcome. Raises CtsqlError, Warn."""
        first = statement.words[0]
        if self.failed and first not in ("rollback", "abort", "commit", "end"):
            message = "the transaction has failed, and takes no more statements"
            raise protocol_error("25P02", message, "Type ROLLBACK.")
        if first == "declare":
            return await self._declare(statement, values)
        handler = _OWN.get(first)
        if handler is not None:
            return await handler(self, statement)
        return await self._ask(statement, values)

    def are_one_change(self, statements: Sequence[Translated]) -> bool:
        """Whether several statements of one text are run as one transaction, as in PostgreSQL.

        They are if all are allowed in a transaction, and several change rows.
        """
        firsts = [statement.words[0] for statement in statements]
        changes = [
            s for s in statements if s.words[0] in (*_WRITES, "with") and not self.has_rows(s)
        ]
        is_open = self.failed or self.connection.in_transaction
        return not is_open and len(changes) > 1 and set(firsts) <= {*_WRITES, *_QUERIES, "set"}

    def fail(self) -> None:
        """Let an open transaction accept only ROLLBACK from now on."""
        self.failed = self.connection.in_transaction

    async def _ask(self, statement: Translated, values: Sequence[object]) -> Outcome:
        """Run a statement of the catalog or of the warehouse."""
        question = self.catalog.question(statement)
        if question is not None:
            return await self._ask_catalog(question, values)
        if self.only_reads and not self.has_rows(statement):
            what = statement.words[0].upper()
            raise error("READ_ONLY_MODE", what=what)
        _check_reach(statement)
        given = [values[number - 1] for number in statement.parameters if number <= len(values)]
        con = self.connection
        self.changes += not self.has_rows(statement)
        result = await self._run(statement, lambda: con.execute(statement.text, given or None))
        return self._of(statement, result)

    async def _run(self, statement: Translated, work: Callable[[], T]) -> T:
        """Run work for a statement; errors get their place in the client's text."""
        try:
            return await self.turn(work)
        except CtsqlError as problem:
            problem.span = statement.place_of(problem.span)
            raise

    def _of(self, statement: Translated, result: "Result") -> Outcome:
        if not result.has_rows:
            return Outcome(tag=result.status, notices=result.notices)
        if result.live is not None:
            hint = "Follow it by ctsql.connect(...).subscribe(...), or read the object."
            raise not_supported(None, "SUBSCRIBE by this protocol", hint=hint)
        columns = [
            (name, column_of(kind)) for name, kind in zip(result.columns, result.types, strict=True)
        ]

        async def fetch(size: int) -> list[tuple[Any, ...]]:
            return await self._run(statement, lambda: result.fetchmany(size))

        verb = result.status.split()[0]
        return Outcome(columns, "SHOW" if verb in ("SHOW", "DESCRIBE") else verb, fetch=fetch)

    async def _ask_catalog(self, question: Any, values: Sequence[object]) -> Outcome:
        con, catalog = self.connection, self.catalog
        names = dict.fromkeys([*DEFAULTS, *self.settings])
        settings = {name: self.setting(name) or "" for name in names}
        by = Asking(
            self.user, self.database, con.search_schema, self.process, not con.read_only, settings
        )
        answer = await self.turn(lambda: catalog.answer(question, values, con.relations(), by))
        return in_memory(*answer, "SELECT")

    # ---- statements about the session

    async def _begin(self, statement: Translated) -> Outcome:
        if self.connection.in_transaction:
            raise Warn("BEGIN", "25001", "there is already a transaction in progress")
        self._set_mode(statement.words)
        await self.open()
        return Outcome(tag="BEGIN")

    async def _end(self, statement: Translated) -> Outcome:
        if self.failed:
            return await self._rollback(statement)
        if not self.connection.in_transaction:
            raise Warn("COMMIT", "25P01", "there is no transaction in progress")
        await self.commit()
        return Outcome(tag="COMMIT")

    async def _save(self, statement: Translated) -> Outcome:
        if not self.connection.in_transaction:
            raise error("TRANSACTION_NOT_OPEN")
        self.savepoints[statement.tokens[-1].name] = self.changes
        return Outcome(tag="SAVEPOINT")

    async def _release(self, statement: Translated) -> Outcome:
        self.savepoints.pop(statement.tokens[-1].name, None)
        return Outcome(tag="RELEASE")

    async def _rollback(self, statement: Translated) -> Outcome:
        if "to" in statement.words:
            if self.savepoints.get(statement.tokens[-1].name) != self.changes:
                place = _place(statement)
                why = "A transaction is rolled back as a whole once it has changed rows."
                raise not_supported(place, "ROLLBACK TO here", why=why, hint="Type ROLLBACK.")
            self.failed = False
            return Outcome(tag="ROLLBACK")
        if not self.connection.in_transaction:
            raise Warn("ROLLBACK", "25P01", "there is no transaction in progress")
        await self.roll_back()
        return Outcome(tag="ROLLBACK")

    async def open(self) -> None:
        """Open a transaction."""
        self.changes = 0
        self.savepoints.clear()
        await self.turn(self.connection.begin)

    async def commit(self) -> None:
        """Commit the open transaction."""
        self._forget()
        await self.turn(self.connection.commit)

    async def roll_back(self) -> None:
        """Roll back the open transaction, if it has not been rolled back by an error."""
        self._forget()
        await self.turn(self.connection.rollback)

    def _forget(self) -> None:
        """Clear the state of a transaction."""
        self.failed, self.only_reads = False, self.reads_by_default
        self.cursors.clear()

    def _set_mode(self, words: Sequence[str]) -> None:
        """Set READ ONLY or READ WRITE for a transaction; every isolation level is the strictest."""
        pairs = list(pairwise(words))
        if ("read", "only") in pairs or ("read", "write") in pairs:
            self.only_reads = ("read", "only") in pairs
            if "characteristics" in words:
                self.reads_by_default = self.only_reads

    async def _set(self, statement: Translated) -> Outcome:
        tokens = list(statement.tokens[1:])
        words = [token.word for token in statement.tokens]
        if "transaction" in words[:5]:
            self._set_mode(words)
            return Outcome(tag="SET")
        if tokens and tokens[0].word in ("session", "local") and len(tokens) > 2:
            tokens = tokens[1:]
        if [token.word for token in tokens[:2]] == ["time", "zone"]:
            name, rest = "timezone", tokens[2:]
        else:
            name, rest = tokens[0].name.lower() if tokens else "", tokens[2:]
        value = ", ".join(t.value if t.kind != "quoted" else t.name for t in rest if t.text != ",")
        if not rest:
            raise error("SYNTAX_ERROR", message="SET takes a name, TO or =, and a value")
        await self.assign(name, value, _place(statement))
        return Outcome(tag="SET")

    async def assign(self, name: str, value: str, place: Span | None = None) -> None:
        """Set a setting, as SET and the parameters of a connection do."""
        if name in _CTSQL_SETTINGS:
            await self.turn(lambda: self.connection.execute(f"SET {name} = {quote_text(value)}"))
        elif name not in DEFAULTS:
            raise error("UNKNOWN_SETTING", span=place, name=name, hint="SHOW lists the settings.")
        elif name == "search_path":
            schemas = [one.strip(' "') for one in value.split(",")]
            others = ("$user", "public", "pg_catalog")  # those that clients name unasked
            schema = next((s for s in schemas if s not in others), "default")
            await self.turn(lambda: self.connection.execute(f"USE {quote(schema)}"))
        elif name in FIXED and value.lower() not in ("default", *FIXED[name]):
            why = f"It is {DEFAULTS[name]} for every client."
            raise not_supported(place, f"{name} = '{value}'", why=why)
        elif value.lower() == "default":
            self.settings.pop(name, None)
        elif name == "statement_timeout" and not _TIMEOUT.fullmatch(value):
            where = place or Source(value).whole()
            raise bad_option(where, name, "It takes milliseconds, or '5s'.", value=f"'{value}'")
        else:
            self.settings[name] = value

    @property
    def timeout_seconds(self) -> float:
        """The statement timeout; 0 for none."""
        match = _TIMEOUT.fullmatch(self.settings.get("statement_timeout", "0"))
        return int(match[1]) * _SECONDS[match[2] or "ms"] if match else 0.0

    def setting(self, name: str) -> str | None:
        """The value of a PostgreSQL setting; None if there is no such setting."""
        if name == "search_path":
            return quote(self.connection.search_schema)
        if name in ("transaction_read_only", "default_transaction_read_only"):
            return "on" if self.only_reads or self.connection.read_only else "off"
        return self.settings.get(name, DEFAULTS.get(name))

    async def _show(self, statement: Translated) -> Outcome:
        words = [token.word for token in statement.tokens[1:]]
        joined = {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}
        name = joined.get(" ".join(words), words[0] if len(words) == 1 else "")
        value = self.setting(name)
        if value is not None:
            return one_text(name, value, "SHOW")
        return await self._ask(statement, ())

    async def _reset(self, statement: Translated) -> Outcome:
        name = statement.words[1] if len(statement.words) > 1 else ""
        if name in _CTSQL_SETTINGS:
            await self.turn(lambda: self.connection.execute(f"RESET {name}"))
        elif name == "all":
            self.settings.clear()
            await self.turn(lambda: self.connection.execute("RESET ALL; USE `default`"))
        else:
            await self.assign(name, "default", _place(statement))
        return Outcome(tag="RESET")

    async def _discard(self, _statement: Translated) -> Outcome:
        self.cursors.clear()
        self.settings.clear()
        self.prepared.clear()
        return Outcome(tag="DISCARD ALL")

    async def _deallocate(self, statement: Translated) -> Outcome:
        name = statement.tokens[-1]
        if name.word == "all":
            self.prepared.clear()
        elif self.prepared.pop(name.name, None) is None:
            raise protocol_error("26000", f'prepared statement "{name.name}" does not exist')
        return Outcome(tag="DEALLOCATE")

    async def _nothing(self, statement: Translated) -> Outcome:
        return Outcome(tag=statement.words[0].upper())

    async def _refuse(self, statement: Translated) -> Outcome:
        raise not_supported(_place(statement), statement.words[0].upper())

    # ---- cursors and COPY

    async def _declare(self, statement: Translated, values: Sequence[object]) -> Outcome:
        tokens = statement.tokens
        at = next((i for i, t in enumerate(tokens) if t.word == "for"), len(tokens))
        if not 2 < at < len(tokens) - 1:
            raise error("SYNTAX_ERROR", message="DECLARE takes a name, CURSOR FOR, and a query")
        inner = statement.inside(at + 1, -1)
        self.cursors[tokens[1].name] = await self._ask(inner, values)
        return Outcome(tag="DECLARE CURSOR")

    async def _fetch(self, statement: Translated) -> Outcome:
        words = [t for t in statement.tokens[1:] if t.word not in ("from", "in", "forward", "next")]
        name = words[-1].name if words else ""
        source = self.cursors.get(name)
        if source is None:
            raise _no_cursor(name)
        amounts = [t.text.lower() for t in words[:-1]] or ["1"]
        if len(amounts) > 1 or not (amounts[0].isdecimal() or amounts[0] == "all"):
            raise not_supported(_place(statement), "FETCH other than forward")
        left = None if amounts[0] == "all" else int(amounts[0])

        async def fetch(size: int) -> list[tuple[Any, ...]]:
            nonlocal left
            if source.is_over or left == 0:
                return []
            rows = await source.next(size if left is None else min(size, left))
            if left is not None:
                left -= len(rows)
            return rows

        return Outcome(source.columns, "FETCH", fetch=fetch)

    async def _close(self, statement: Translated) -> Outcome:
        name = statement.tokens[-1]
        if name.word == "all":
            self.cursors.clear()
        elif self.cursors.pop(name.name, None) is None:
            raise _no_cursor(name.name)
        return Outcome(tag="CLOSE CURSOR")

    async def _copy(self, statement: Translated) -> Outcome:
        tokens, depth, at = statement.tokens, 0, 0
        while at + 1 < len(tokens) and (depth or tokens[at].word not in ("to", "from")):
            at += 1
            depth += {"(": 1, ")": -1}.get(tokens[at].text, 0)
        place = Span(Source(statement.source), tokens[at].start, tokens[-1].stop)
        target = tokens[at + 1].word if at + 1 < len(tokens) else ""
        if tokens[at].word != "to" or target != "stdout":
            raise not_supported(place, "COPY by this protocol other than TO STDOUT")
        options = _copy_options(tokens[at + 2 :])
        if tokens[1].text == "(":
            inner = statement.inside(2, at - 2)
        else:
            text = statement.source[tokens[1].start : tokens[at - 1].stop]
            name, _, columns = text.partition("(")
            columns = columns.rpartition(")")[0] or "*"
            inner = dialect.split(f"SELECT {columns} FROM {name}")[0]
        outcome = await self._ask(inner, ())
        outcome.copy = options
        outcome.tag = "COPY"
        return outcome


def settings_given(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings among the parameters of a connection, those of ``options=-c`` included.

    Clients send their machine's time zone and encoding unasked; the server reports its own.
    """
    for match in re.finditer(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|\S)*)", given.get("options", "")):
        yield match[1].replace("-", "_").lower(), re.sub(r"\\(.)", r"\1", match[2])
    unasked = ("user", "database", "options", "timezone", "client_encoding")
    for name, value in given.items():
        if name.lower() not in unasked and not name.startswith("_pq_."):
            yield name.lower(), value


def protocol_error(sqlstate: str, message: str, hint: str | None = None) -> CtsqlError:
    """An error of PostgreSQL's protocol only; the caller raises it."""
    return CtsqlError("POSTGRES_PROTOCOL", sqlstate, message, hint=hint)


def _no_cursor(name: str) -> CtsqlError:
    return protocol_error("34000", f'cursor "{name}" does not exist')


def _check_reach(statement: Translated) -> None:
    """Refuse statements that read the server's files or call Java."""
    tokens = statement.tokens
    for index, token in enumerate(tokens):
        behind = tokens[index + 1].text if index + 1 < len(tokens) else ""
        before = tokens[index - 1].word if index else ""
        is_call = behind == "(" and (token.word in _JAVA or token.word.startswith("read_"))
        # FROM 'file', csv.`file`
        is_file = before in ("from", "join") and token.kind in ("string", "escaped", "dollar")
        is_path = behind == "." and token.name in _FORMATS and before in ("from", "join")
        if is_call or is_file or is_path:
            place = Span(Source(statement.source), token.start, token.stop)
            why = "A client of PostgreSQL reads the warehouse, and not the server's machine."
            raise not_supported(place, token.text, why=why)


def _place(statement: Translated) -> Span:
    """The first word of a statement."""
    first = statement.tokens[0]
    return Span(Source(statement.source), first.start, first.stop)


def _copy_options(tokens: Sequence[dialect.Token]) -> CopyOut:
    """The options of COPY, in the old form and in parentheses."""
    words = [t for t in tokens if t.text not in ("(", ")", ",") and t.word != "with"]
    form, given = "text", dict[str, str]()
    at = 0
    while at < len(words):
        word, value = words[at].word, words[at + 1] if at + 1 < len(words) else None
        if word in ("csv", "binary", "text"):
            form = word
        elif word == "format" and value is not None:
            form, at = value.name or value.value.lower(), at + 1
        elif word == "header":
            switch = "" if value is None else value.word
            given["header"] = "false" if switch in ("false", "off") else "true"
            at += switch in ("true", "false", "on", "off")
        elif word in ("delimiter", "null", "quote") and value is not None:
            if value.word == "as" and at + 2 < len(words):
                at, value = at + 1, words[at + 2]
            given[word], at = value.value, at + 1
        else:
            raise not_supported(None, f"the option {words[at].text} of COPY")
        at += 1
    if form not in ("csv", "text", "binary"):
        raise not_supported(None, f"COPY in the format {form}", hint="Type: FORMAT csv")
    is_csv = form == "csv"
    return CopyOut(
        form,
        given.get("header") == "true",
        given.get("delimiter", "," if is_csv else "\t"),
        given.get("null", "" if is_csv else "\\N"),
        given.get("quote", '"'),
    )


_OWN: dict[str, Callable[[Session, Translated], Awaitable[Outcome]]] = {
    "begin": Session._begin, "start": Session._begin, "commit": Session._end, "end": Session._end,
    "rollback": Session._rollback, "abort": Session._rollback, "set": Session._set,
    "show": Session._show, "reset": Session._reset, "discard": Session._discard,
    "deallocate": Session._deallocate, "unlisten": Session._nothing, "listen": Session._refuse,
    "savepoint": Session._save, "release": Session._release, "prepare": Session._refuse,
    "execute": Session._refuse, "fetch": Session._fetch,
    "close": Session._close, "copy": Session._copy,
}  # fmt: skip
DEFAULTS = {
    "application_name": "", "bytea_output": "hex", "client_encoding": "UTF8",
    "client_min_messages": "notice", "datestyle": "ISO, MDY", "default_transaction_isolation":
    "serializable", "extra_float_digits": "1", "integer_datetimes": "on", "intervalstyle":
    "postgres", "is_superuser": "off", "jit": "off", "lc_collate": "C", "lc_ctype": "C",
    "lock_timeout": "0", "max_identifier_length": "63", "row_security": "on",
    "search_path": "default", "server_encoding": "UTF8", "server_version": VERSION,
    "server_version_num": "150000", "session_authorization": "", "standard_conforming_strings":
    "on", "statement_timeout": "0", "timezone": "UTC", "transaction_isolation": "serializable",
    "max_index_keys": "32",
    "default_transaction_read_only": "off", "transaction_read_only": "off",
    "synchronous_commit": "on", "ssl": "off", "default_table_access_method": "heap",
    "block_size": "8192", "wal_level": "replica", "max_connections": "100",
}  # fmt: skip
FIXED = {
    "client_encoding": ("utf8", "utf-8", "unicode"), "timezone": ("utc", "gmt", "etc/utc", "0"),
    "standard_conforming_strings": ("on", "true"), "bytea_output": ("hex",),
    "datestyle": ("iso", "iso, mdy", "iso, dmy", "iso, ymd"), "intervalstyle": ("postgres",),
}  # fmt: skip
"""Settings with one possible value, and its spellings."""
