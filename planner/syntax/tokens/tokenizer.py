"""Cuts SQL text into tokens with sqlglot's Spark tokenizer, and into statements.

ctsql parses only these tokens, so comments, quotes and escapes have one meaning. sqlglot's own
tokens are changed:

- a keyword of several words (``GROUP BY``) becomes one token for each word;
- the rest of a statement that sqlglot keeps as one string (after SHOW, EXPLAIN) is cut too;
- tokens without text (the ``::`` that sqlglot reads into ``1L``) are dropped;
- one token of Spark's lexer is one token: ``<<``, ``>>>``, ``!>``, ``.5``, the name ``1a``.

No class here inherits from one of sqlglot's: its compiled build forbids that.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token as SqlglotToken, TokenType

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.names import fold
from ctsql.catalog.spans import Source, Span


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set, for sets of keywords and functions."""
    return frozenset(text.split())


class Kind(Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; ``start`` (inclusive) and ``stop`` (exclusive) count from the source's begin."""

    kind: Kind
    text: str  # a quoted name or a string without its quotes and escapes, else as typed
    upper: str  # a word in upper case, a symbol as it is, else empty: what keywords compare with
    source: Source
    start: int
    stop: int

    @property
    def span(self) -> Span:
        """The span of the token."""
        return Span(self.source, self.start, self.stop)

    @property
    def is_name(self) -> bool:
        """Whether it can be an identifier (keywords can, in Spark)."""
        return self.kind in (Kind.WORD, Kind.QUOTED)


Tokens = Sequence[Token]

# sqlglot's tokens after which it takes what follows, up to the next semicolon, as one string.
_SWALLOWING = (
    TokenType.COMMAND,
    TokenType.EXECUTE,
    TokenType.FETCH,
    TokenType.RENAME,
    TokenType.SHOW,
)
_LITERALS = (
    TokenType.STRING,
    TokenType.RAW_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.UNICODE_STRING,
    TokenType.BYTE_STRING,
    TokenType.BIT_STRING,
)
_OPENERS = {"'": "a string", '"': "a string", "`": "a quoted name", "/*": "a comment"}
_PIECE = re.compile(
    r"--(?:\\\n|[^\r\n])*|/\*|\*/|"
    r"""r'[^']*'|r"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|['"`]""",
    re.DOTALL | re.IGNORECASE,
)
_OPERATORS = ("<<", ">>", ">>>", "!<", "!>")
GENERIC_TYPES = ("ARRAY", "MAP", "STRUCT")
_NO_CHARACTER = re.compile("[\ud800-\udfff]")  # half of a surrogate pair: what no encoding has
_BAD_HEX = re.compile(r"\b[xX](?:'[^']*'|\"[^\"]*\")|\b0x[0-9a-z]*", re.IGNORECASE)


def tokenise(span: Span) -> tuple[Token, ...]:
    """The tokens of a piece of text, comments left out.

    Raises SYNTAX_ERROR: a string, quoted name or comment is not closed; a bad literal or character.
    """
    half = _NO_CHARACTER.search(span.text)
    if half is not None:
        message = f"U+{ord(half[0]):04X} is not a character"
        detail = "Python has it for bytes that are not UTF-8."
        raise error("SYNTAX_ERROR", span=span.part(*half.span()), message=message, detail=detail)
    text = plain_comments(span.text)
    if text.startswith("\ufeff"):  # a byte order mark is no part of the first word
        text = " " + text[1:]
    try:
        tokens = _spark_tokens(text, span)
        for joined in (_join_names, _join_signs, _join_strings):
            tokens = _join(tokens, joined)
        return tuple(tokens)
    except TokenError as cause:
        unclosed, message, detail = find_unclosed(text), "a literal cannot be read", ""
        if unclosed is not None:
            offset, what = unclosed
            span = span.part(offset, offset + (2 if what == "a comment" else 1))
            message, detail = f"{what} is not closed", "It opens here."
        elif bad := _BAD_HEX.search(text):
            span = span.part(bad.start(), bad.end())
        raise error("SYNTAX_ERROR", span=span, message=message, detail=detail) from cause


def find_unclosed(text: str) -> tuple[int, str] | None:
    """Find a string, a quoted name or a comment that is never closed, and its kind."""
    comments: list[int] = []
    for piece in _pieces(text):
        if piece[0] == "/*":
            comments.append(piece.start())
        elif piece[0] == "*/":
            del comments[-1:]
        elif piece[0] in _OPENERS:
            return piece.start(), _OPENERS[piece[0]]
    return (comments[0], _OPENERS["/*"]) if comments else None


def _pieces(text: str) -> Iterator[re.Match[str]]:
    """Line comments, quoted pieces and marks that open something; in a comment only its marks."""
    position = depth = 0
    while piece := _PIECE.search(text, position):
        position = piece.end()
        is_mark = piece[0] in ("/*", "*/")
        if depth and not is_mark:
            position = piece.start() + 1
            continue
        depth = max(depth + {"/*": 1, "*/": -1}.get(piece[0], 0), 0)
        yield piece


def plain_comments(text: str) -> str:
    """The text for sqlglot: to Spark, a backslash at its end continues a line comment."""
    if "\\\n" not in text:
        return text
    plain_text, position = "", 0
    for piece in _pieces(text):
        is_comment = piece[0].startswith("--")
        plain_text += text[position : piece.start()]
        plain_text += piece[0].replace("\\\n", "  ") if is_comment else piece[0]
        position = piece.end()
    return plain_text + text[position:]


def _join(
    tokens: Iterable[Token], joined: Callable[[Token, Token], Token | None]
) -> Iterator[Token]:
    """The tokens, with neighbours joined by ``joined``."""
    last: Token | None = None
    for token in tokens:
        both = None if last is None else joined(last, token)
        if last is not None and both is None:
            yield last
        last = both or token
    if last is not None:
        yield last


def _join_names(last: Token, token: Token) -> Token | None:
    """A name that begins with a digit is one token."""
    is_name = last.kind is Kind.NUMBER and token.kind is Kind.WORD and last.text.isdigit()
    return _touching(last, token, Kind.WORD) if is_name else None


def _join_signs(last: Token, token: Token) -> Token | None:
    """An operator of several signs is one token, and a number that begins with a dot."""
    if last.upper + token.upper in _OPERATORS:
        return _touching(last, token, Kind.SYMBOL)
    is_number = last.upper == "." and token.kind is Kind.NUMBER
    return _touching(last, token, Kind.NUMBER) if is_number else None


def _touching(last: Token, token: Token, kind: Kind) -> Token | None:
    """Two tokens as one; None if anything is between them."""
    if last.stop != token.start:
        return None
    text = last.text + token.text
    upper = "" if kind is Kind.NUMBER else text.upper()
    return Token(kind, text, upper, last.source, last.start, token.stop)


def _join_strings(last: Token, token: Token) -> Token | None:
    """Strings that follow each other are one string; a doubled quote inside one is a quote."""
    if last.kind is not Kind.STRING or token.kind is not Kind.STRING:
        return None
    whole = token.source.text[last.start : token.stop]
    quote = whole[last.stop - last.start - 1]
    touching = last.stop == token.start and whole[last.stop - last.start] == quote
    text = last.text + (quote if touching else "") + token.text
    return dataclasses.replace(last, text=text, stop=token.stop)


def _spark_tokens(text: str, span: Span) -> Iterator[Token]:
    stop_before = 0
    for raw, offset in _raw(text):
        start, stop = raw.start + offset, raw.end + 1 + offset
        if start < stop_before:  # a part of the token before, as in 1L
            continue
        stop_before = stop
        piece = text[start:stop]
        kind = _kind(raw, piece)
        if kind is not Kind.WORD:
            content = raw.text if kind in (Kind.QUOTED, Kind.STRING) else piece
            upper = piece if kind is Kind.SYMBOL else ""
            begin = span.start + start
            yield Token(kind, content, upper, span.source, begin, span.start + stop)
            continue
        for word in re.finditer(r"\S+", piece):
            begin = span.start + start + word.start()
            end = span.start + start + word.end()
            yield Token(kind, word.group(), word.group().upper(), span.source, begin, end)


def _kind(raw: SqlglotToken, text: str) -> Kind:
    if raw.token_type in _LITERALS or text[0] in "'\"" or text[-1] in "'\"":
        return Kind.STRING
    if text[0] == "`":
        return Kind.QUOTED
    if text[0].isdigit():
        return Kind.NUMBER
    return Kind.WORD if text[0].isalpha() or text[0] == "_" else Kind.SYMBOL


def _raw(text: str) -> Iterator[tuple[SqlglotToken, int]]:
    """The tokens as sqlglot cuts them, each with the shift of its offsets."""
    raw_tokens = Spark.Tokenizer().tokenize(text)
    at_start = True
    position = 0
    while position < len(raw_tokens):
        token = raw_tokens[position]
        yield token, 0
        position += 1
        swallowed = (
            at_start
            and token.token_type in _SWALLOWING
            and position < len(raw_tokens)
            and raw_tokens[position].token_type == TokenType.STRING
        )
        at_start = token.token_type in (TokenType.SEMICOLON, TokenType.BEGIN)
        if swallowed:
            position += 1
            stop = raw_tokens[position].start if position < len(raw_tokens) else len(text)
            # With a word in front of it, no keyword stands first, so nothing is swallowed.
            rest = "x " + text[token.end + 1 : stop]
            for inner in Spark.Tokenizer().tokenize(rest)[1:]:
                yield inner, token.end - 1


def span_of(tokens: Tokens) -> Span:
    """From the first token to the last."""
    return Span(tokens[0].source, tokens[0].start, tokens[-1].stop)


def closing(tokens: Tokens, opening: int) -> int:
    """The index of the parenthesis that closes the one at ``opening``, or the number of tokens."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].upper == "(":
            depth += 1
        elif tokens[index].upper == ")":
            depth -= 1
            if depth == 0:
                return index
    return len(tokens)


def opening(tokens: Tokens, index: int) -> int:
    """The index of the parenthesis that is open at an index, or -1."""
    depth = 0
    for before in range(index - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(tokens[before].upper, 0)
        if depth < 0:
            return before
    return -1


def in_parentheses(tokens: Tokens) -> Tokens | None:
    """The tokens inside the parentheses that hold all of them; None if there is no such pair."""
    is_whole = upper_at(tokens, 0) == "(" and closing(tokens, 0) == len(tokens) - 1
    return tokens[1:-1] if is_whole else None


def at_depth_0(
    tokens: Tokens, start: int = 0, *, brackets: bool = False
) -> Iterator[tuple[int, Token]]:
    """The tokens outside parentheses (and brackets), with their indexes."""
    steps = {"(": 1, ")": -1} | ({"[": 1, "]": -1} if brackets else {})
    depth = 0
    for index in range(start, len(tokens)):
        step = steps.get(tokens[index].upper, 0)
        depth += step
        if step == 0 and depth == 0:
            yield index, tokens[index]


def top_words(tokens: Tokens) -> list[tuple[int, str]]:
    """The words and symbols outside parentheses, brackets and CASE, with their indexes."""
    found, cases = [], 0
    for index, token in at_depth_0(tokens, brackets=True):
        if upper_at(tokens, index - 1) == ".":
            continue  # a part of a name
        if token.upper == "CASE":
            cases += 1
        elif token.upper == "END" and cases:
            cases -= 1
        elif not cases:
            found.append((index, token.upper))
    return found


def cut_at_commas(tokens: Tokens, *, are_columns: bool = False) -> list[Tokens]:
    """Cut tokens at the commas outside parentheses, brackets and types, into one group at least.

    ``are_columns``: names with types; else expressions, where a type follows ``::`` and another
    ``<`` compares.
    """
    groups: list[Tokens] = []
    begin = depth = angles = 0
    for index, token in enumerate(tokens):
        symbol = token.upper
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(symbol, 0)
        if symbol == "<" and upper_at(tokens, index - 1) in GENERIC_TYPES:
            before = upper_at(tokens, index - 2)
            angles += are_columns or angles > 0 or before in ("::", "AS")
        elif angles and set(symbol) == {">"}:
            angles = max(angles - len(symbol), 0)
        if symbol == "," and depth == 0 and angles == 0:
            groups.append(tokens[begin:index])
            begin = index + 1
    return [*groups, tokens[begin:]]


def rows_of_values(tokens: Tokens) -> list[list[Tokens]]:
    """The values of the rows in ``VALUES (a, b), (c, d)``; none if it is any other text."""
    if upper_at(tokens, 0) != "VALUES":
        return []
    rows = [in_parentheses(row) for row in cut_at_commas(tokens[1:])]
    cells = [cut_at_commas(row) for row in rows if row]
    return cells if len(cells) == len(rows) and all(map(all, cells)) else []


def upper_at(tokens: Tokens, index: int) -> str:
    """The token at an index in the form of keywords; empty before the first and at the end."""
    return tokens[index].upper if 0 <= index < len(tokens) else ""


def name_chain(tokens: Tokens, index: int, *, has_star: bool = False) -> list[Token]:
    """The name at an index and those joined to it by dots; a star ends a chain as a name does."""
    chain = [tokens[index]]
    while upper_at(tokens, index + 1) == "." and index + 2 < len(tokens):
        part = tokens[index + 2]
        if not (part.is_name or (has_star and part.upper == "*")):
            break
        chain.append(part)
        index += 2
    return chain


def words_are(tokens: Tokens, index: int, *words: str) -> bool:
    """Whether these words begin at an index."""
    return all(upper_at(tokens, index + i) == word for i, word in enumerate(words))


_BEGIN = ("AUTO", "INSERT", "SELECT", "VALUES", "WITH")  # words after an AS that are no alias


def words_of(text: Span) -> list[str]:
    """The tokens of a text, folded if case has no meaning: equal for equal texts.

    Case counts in strings, after ``.`` and ``:`` (keys of maps, fields of a VARIANT), and in
    aliases, which ``to_json`` writes.

    >>> from ctsql.catalog.spans import Source
    >>> words_of(Source("SELECT CAST(V:Id AS INT) AS Total FROM T", "").whole())[6:]
    ['as', 'int', ')', 'as', 'Total', 'from', 't']
    """
    words: list[str] = []
    casts: list[bool] = []  # for each parenthesis that is open, whether AS in it names a type
    for token in tokenise(text):
        word, before = token.span.text, words[-1] if words else ""
        if word == "(":
            casts.append(before in ("cast", "try_cast"))
        elif word == ")" and casts:
            casts.pop()
        is_alias = before == "as" and word.upper() not in _BEGIN and not (casts and casts[-1])
        counts = token.kind is Kind.STRING or before in (".", ":") or is_alias
        words.append(word if counts else word.casefold())
    return words


def split(source: Source) -> list[Span]:
    """The statements of a script, in order; empty ones are dropped.

    A semicolon outside parentheses ends one. A span excludes the semicolon, and the comments and
    blanks around the statement.

    Raises:
        SYNTAX_ERROR: a string, quoted name, comment or parenthesis is not closed or never opened.
    """
    return [span_of(tokens) for tokens in split_tokens(tokenise(source.whole())) if tokens]


def split_tokens(tokens: Tokens) -> list[list[Token]]:
    """The same for tokens; empty statements are kept, as empty lists."""
    statements: list[list[Token]] = [[]]
    open_parens: list[Token] = []
    for token in tokens:
        if token.upper == "(":
            open_parens.append(token)
        elif token.upper == ")":
            if not open_parens:
                message = "a parenthesis closes that was not opened"
                raise error("SYNTAX_ERROR", span=token.span, message=message)
            open_parens.pop()
        if token.upper == ";" and not open_parens:
            statements.append([])
        else:
            statements[-1].append(token)
    if open_parens:
        message, detail = "a parenthesis is not closed", "It opens here."
        raise error("SYNTAX_ERROR", span=open_parens[-1].span, message=message, detail=detail)
    return statements


def is_complete(text: str) -> bool:
    """Whether a text can be run: blank, ended by a semicolon, or wrong whatever follows."""
    if find_unclosed(text) is not None:
        return False
    try:
        tokens = tokenise(Source(text).whole())
    except CtsqlError:
        return True
    depth = 0
    for token in tokens:
        depth = max(depth + {"(": 1, ")": -1}.get(token.upper, 0), 0)
    return not tokens or (depth == 0 and tokens[-1].upper == ";")


_BEFORE_STAR = {"SELECT", "DISTINCT", "ALL", "SET", "INSERT", ",", "."}
_NAME_ALL = {"NATURAL", "TABLE"}


def named_columns(definition: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of a relation's columns that a definition names, in their order; a star names all.

    The text is read as words, so there may be too many columns and never too few.

    >>> named_columns("CREATE VIEW v AS SELECT A * 2 AS x, count(*) FROM t", ["a", "b"])
    ('a',)
    >>> named_columns("CREATE VIEW v AS SELECT * FROM t", ["a", "b"])
    ('a', 'b')
    """
    tokens = tokenise(Source(definition, "").whole())
    words = ["", "", *(token.upper for token in tokens)]
    for before, last, word in zip(words, words[1:], words[2:], strict=False):
        is_star = word == "*" and (last in _BEFORE_STAR or (last == "(" and before != "COUNT"))
        if is_star or word in _NAME_ALL:
            return tuple(columns)
    names = {fold(token.text) for token in tokens if token.is_name}
    return tuple(c for c in columns if fold(c) in names)
