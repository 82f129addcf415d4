"""Reads PostgreSQL's spelling of a statement, and writes Spark's where the two differ.

Only the spelling is translated: ``"name"``, strings (in which a backslash is a character), ``$1``,
and the names of types in casts. Everything else means what it means in Spark. Positions in the new
text are mapped to the client's text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ctsql.catalog.errors import error
from ctsql.catalog.names import backtick
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Source, Span
from ctsql.planner.syntax import RewrittenText, splice
from ctsql.planner.syntax.ast import Edit

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*)
    | (?P<comment>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<backtick>`(?:[^`]|``)*`)
    | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
    | (?P<parameter>\$\d+)
    | (?P<word>(?![eE]')[^\W\d][\w$]*)
    | (?P<number>\d[\w.]*)
    | (?P<open>['"`]|[eE]'|\$\w*\$)
    | (?P<symbol>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL
)
_TYPES = {
    "bool": "BOOLEAN", "bpchar": "STRING", "bytea": "BINARY", "float4": "FLOAT",
    "float8": "DOUBLE", "int2": "SMALLINT", "int4": "INT", "int8": "BIGINT", "json": "STRING",
    "jsonb": "STRING", "name": "STRING", "text": "STRING", "timestamptz": "TIMESTAMP",
    "uuid": "STRING", "oid": "BIGINT",
}  # fmt: skip
_UNLIMITED = {
    "varchar": "STRING", "char": "STRING", "character": "STRING", "numeric": "DECIMAL(38, 18)",
    "decimal": "DECIMAL(38, 18)",
}  # fmt: skip
"""Types that Spark lacks or reads differently, if no length follows."""
_CASTS = ("cast", "try_cast")


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted name, a string, a parameter or a symbol of the client's text."""

    kind: str
    text: str
    start: int
    stop: int

    @property
    def word(self) -> str:
        """An unquoted word in lower case; else empty."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """The name, for a word or a quoted name; else empty."""
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.word

    @property
    def value(self) -> str:
        """The characters of a string."""
        match self.kind:
            case "string":
                return self.text[1:-1].replace("''", "'")
            case "escaped":
                return _ESCAPE.sub(_unescape, self.text[2:-1])
            case "dollar":
                size = self.text.index("$", 1) + 1
                return self.text[size:-size]
        return self.text


def _unescape(match: re.Match[str]) -> str:
    short, long, hexadecimal, octal, letter = match.groups()
    if match[0] == "''":
        return "'"
    if letter is not None:
        return _ESCAPES.get(letter, letter)
    return chr(int(octal, 8) if octal else int(short or long or hexadecimal, 16))


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of a text; raises SYNTAX_ERROR for what is not closed."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None  # any character is a symbol
        kind, stop = match.lastgroup or "", match.end()
        if kind == "comment":
            stop = _end_of_comment(text, position)
        elif kind == "open":
            raise _unclosed(text, position, stop, "a string" if "'" in match[0] else "a name")
        elif kind != "blank":
            yield Token(kind, match[0], position, stop)
        position = stop


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return start + mark.end()
    raise _unclosed(text, start, start + 2, "a comment")


def _unclosed(text: str, start: int, stop: int, what: str) -> Exception:
    span = Span(Source(text), start, stop)
    message = f"{what} is not closed"
    return error("SYNTAX_ERROR", span=span, message=message, detail="It opens here.")


@dataclass(frozen=True, slots=True)
class Translated:
    """One statement: its tokens, its text for ctsql, and the order of its parameters.

    ``hints``: the type of a parameter by its number, if its place implies one.
    """

    tokens: tuple[Token, ...]
    source: str
    rewritten: RewrittenText
    parameters: tuple[int, ...]
    hints: dict[int, str]

    @property
    def text(self) -> str:
        """The text for ctsql."""
        return self.rewritten.text

    @property
    def words(self) -> tuple[str, ...]:
        """The unquoted words at its beginning, in lower case; other tokens as typed."""
        return tuple(token.word or token.text for token in self.tokens[:6])

    def place_of(self, span: Span | None) -> Span | None:
        """Map a place in :attr:`text` to the client's text; None for a place in another text."""
        if span is None or span.source.text != self.text:
            return None
        start = self.rewritten.origin(span.start)
        return Span(Source(self.source), start, max(start, self.rewritten.origin(span.stop)))

    def inside(self, first: int, last: int) -> "Translated":
        """The statement that consists of some tokens of this one, with the same places."""
        start, stop = self.tokens[first].start, self.tokens[last].stop
        statement = split(" " * start + self.source[start:stop])[0]
        return replace(statement, source=self.source)


def split(text: str) -> list[Translated]:
    """The statements of a text; empty ones are left out. Raises SYNTAX_ERROR."""
    statements: list[Translated] = []
    current: list[Token] = []
    depth = 0
    for token in tokens_of(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.text == ";" and depth <= 0:
            if current:
                statements.append(_translated(text, current))
            current, depth = [], 0
        else:
            current.append(token)
    return [*statements, _translated(text, current)] if current else statements


def _translated(text: str, tokens: list[Token]) -> Translated:
    source = Source(text)
    whole = Span(source, tokens[0].start, tokens[-1].stop)
    edits: list[Edit] = []
    numbers: list[int] = []
    hints: dict[int, str] = {}
    for index, token in enumerate(tokens):
        before = tokens[index - 1].word if index else ""
        place = Span(source, token.start, token.stop)
        match token.kind:
            case "quoted":
                edits.append(Edit(span=place, text=backtick(token.name)))
            case "escaped" | "dollar" | "string" if not _is_same(
                token, tokens[max(index - 1, 0) : index]
            ):
                edits.append(Edit(span=place, text=quote_text(token.value)))
            case "parameter":
                numbers.append(int(token.text[1:]))
                edits.append(Edit(span=place, text="?"))
                if before in ("limit", "offset", "fetch"):
                    hints[numbers[-1]] = "int8"
    edits += _types(source, tokens)
    return Translated(tuple(tokens), text, splice(whole, edits), tuple(numbers), hints)


def _is_same(token: Token, before: list[Token]) -> bool:
    r"""Whether a string needs no change: Spark reads it the same, or it is Spark's ``r'\d'``."""
    if token.kind != "string":
        return False
    is_raw = bool(before) and before[0].word == "r" and before[0].stop == token.start
    return is_raw or ("\\" not in token.text and "''" not in token.text)


def _types(source: Source, tokens: list[Token]) -> Iterator[Edit]:
    """The edits of types in casts, and of ``WITH TIME ZONE``."""
    casts: list[bool] = []  # for each open parenthesis, whether it is a cast's
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if token.text == "(":
            casts.append(before is not None and before.word in _CASTS)
        elif token.text == ")" and casts:
            casts.pop()
        elif token.text == "::" or (token.word == "as" and casts and casts[-1]):
            yield from _type(source, tokens, index + 1)
        elif token.word == "timestamp" and _words(tokens, index + 2, "time", "zone"):
            names = {"with": "TIMESTAMP", "without": "TIMESTAMP_NTZ"}
            name = names.get(tokens[index + 1].word)
            if name is not None:
                yield Edit(span=Span(source, token.start, tokens[index + 3].stop), text=name)


def _words(tokens: list[Token], index: int, *words: str) -> bool:
    return all(
        index + at < len(tokens) and tokens[index + at].word == word
        for at, word in enumerate(words)
    )


def _type(source: Source, tokens: list[Token], index: int) -> Iterator[Edit]:
    """The edit of the type that begins at a token, if Spark spells it differently."""
    first = index
    if _words(tokens, index, "pg_catalog") and index + 2 < len(tokens):
        index += 2
    if index >= len(tokens):
        return
    name, stop = tokens[index].name, tokens[index].stop
    has_length = index + 1 < len(tokens) and tokens[index + 1].text == "("
    new = _TYPES.get(name)
    if _words(tokens, index, "double", "precision"):
        new, stop = "DOUBLE", tokens[index + 1].stop
    elif _words(tokens, index, "character", "varying"):
        has_length = index + 2 < len(tokens) and tokens[index + 2].text == "("
        new, stop = "VARCHAR" if has_length else "STRING", tokens[index + 1].stop
    elif name in _UNLIMITED and not has_length:
        new = _UNLIMITED[name]
    if new is not None:
        yield Edit(span=Span(source, tokens[first].start, stop), text=new)
