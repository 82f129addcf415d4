"""Reads a statement token by token; errors name the found token and the expected one."""

from collections.abc import Iterable
from typing import NoReturn

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import RelationRef
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens, span_of

MAX_NAME_PARTS = 2

_KINDS = {
    tuple(k.keyword.split()): k for k in ObjectKind if k is not ObjectKind.UNREADABLE
}  # by the words of each
_KINDS_LISTED = "TABLE, VIEW, MATERIALIZED VIEW, CONTINUAL TASK or SCHEMA"


def syntax_error(
    span: Span, message: str, *, hint: str = "", cause: Exception | None = None
) -> CtsqlError:
    """A SYNTAX_ERROR at a place; the caller raises it."""
    return error("SYNTAX_ERROR", span=span, cause=cause, message=message, hint=hint)


class TokenCursor:
    """A place in the tokens of one statement."""

    def __init__(self, tokens: Tokens, *, start: int = 0, of: str = "statement") -> None:
        """Begin at an index of the tokens; ``of`` names them in "the end of the ..."."""
        self.tokens = tokens
        self.position = start
        self._end = f"the end of the {of}"

    @property
    def span(self) -> Span:
        """All the tokens, those read included."""
        return span_of(self.tokens)

    @property
    def current(self) -> Token | None:
        """The next token, or None at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def is_at_name(self) -> bool:
        """Whether an identifier comes next."""
        return self.current is not None and self.current.is_name

    @property
    def rest(self) -> Tokens:
        """The tokens not read yet."""
        return self.tokens[self.position :]

    @property
    def here(self) -> Span:
        """The next token's span; at the end, the empty span after the last token."""
        return self.tokens[-1].span.behind if self.current is None else self.current.span

    def since(self, start: int) -> Span:
        """From a place in the text to the end of the token that was read last."""
        return Span(self.tokens[0].source, start, self.tokens[self.position - 1].stop)

    def upper(self, ahead: int = 0) -> str:
        """The token ``ahead`` places later, in the form of keywords; empty at the end."""
        return tk.upper_at(self.tokens, self.position + ahead)

    def at(self, *words: str) -> bool:
        """Whether these words come next."""
        return tk.words_are(self.tokens, self.position, *words)

    def accept(self, *words: str) -> bool:
        """Read these words if they come next, all or none."""
        if not self.at(*words):
            return False
        self.position += len(words)
        return True

    def one_of(self, *clauses: str) -> str:
        """Read the words of the first of some clauses that comes next; empty if none does."""
        return next((clause for clause in clauses if self.accept(*clause.split())), "")

    def expect(self, *words: str, hint: str = "") -> Token:
        """Read these words; the last one is returned."""
        for word in words:
            if not self.accept(word):
                self.fail(word, hint=hint, words=[word] if word.isalpha() else ())
        return self.tokens[self.position - 1]

    def take(self, what: str = "") -> Token:
        """Read any one token; ``what`` is for the message if there is none."""
        if what and self.current is None:
            self.fail(what)
        token = self.tokens[self.position]
        self.position += 1
        return token

    def until(self, stop: int, what: str) -> Tokens:
        """Read the next ``stop`` tokens, at least one."""
        tokens = self.rest[:stop]
        if not tokens:
            self.fail(what)
        self.position += len(tokens)
        return tokens

    def string(self, what: str, *, hint: str = "") -> Token:
        """Read a string literal."""
        if self.current is None or self.current.kind is not Kind.STRING:
            self.fail(what, hint=hint)
        return self.take()

    def name(self, what: str) -> Token:
        """Read one identifier."""
        if not self.is_at_name:
            self.fail(what)
        return self.take()

    def relation(self, what: str, *, aliased: bool = True) -> RelationRef:
        """Read ``name`` or ``schema.name``; ``aliased`` is False where replacing adds an alias."""
        return relation_ref(self.dotted_name(what), aliased=aliased)

    def dotted_name(self, what: str) -> list[Token]:
        """Read identifiers with dots between them."""
        parts = [self.name(what)]
        while self.accept("."):
            parts.append(self.name("a name after the dot"))
        return parts

    def group(self, what: str = "", *, filled: bool = False, words: Iterable[str] = ()) -> Tokens:
        """Read a group in parentheses; return the tokens between them.

        ``filled`` fails if there are none; ``words`` are then as for :meth:`fail`.
        """
        if not self.at("("):
            self.fail(f'"(" and {what}' if what else '"("')
        start, stop = self.position + 1, tk.closing(self.tokens, self.position)
        if filled and start == stop:
            self.position += 1
            self.fail(what, words=words)
        self.position = stop + 1
        return self.tokens[start:stop]

    def if_not_exists(self) -> bool:
        """Read IF NOT EXISTS, if it comes next."""
        if self.accept("IF"):
            self.expect("NOT", "EXISTS")
            return True
        return False

    def if_exists(self) -> bool:
        """Read IF EXISTS, if it comes next."""
        if self.accept("IF"):
            self.expect("EXISTS")
            return True
        return False

    def kind(self) -> ObjectKind | None:
        """Read the words of an object's kind, if they come next."""
        for words, kind in _KINDS.items():
            if self.accept(*words):
                return kind
        return None

    def expect_kind(self, *others: str) -> ObjectKind:
        """Read the words of an object's kind; the error also lists ``others`` as expected."""
        kind = self.kind()
        if kind is None:
            first = (words[0] for words in _KINDS)
            expected = ", or ".join([_KINDS_LISTED, *others])
            self.fail(expected, words=[*dict.fromkeys(first), *others])
        return kind

    def end(self, hint: str = "") -> None:
        """Fail if a token follows."""
        if self.current is not None:
            self.fail(self._end, hint=hint)

    def fail(self, expected: str, *, hint: str = "", words: Iterable[str] = ()) -> NoReturn:
        """Raise a SYNTAX_ERROR, with a hint if the token is nearly one of ``words``."""
        token_text = self._end
        if self.current is not None:
            text = self.current.span.text
            token_text = f'"{text}"' if len(text) <= 40 else f'"{text[:37]}..."'
        word, known = self.upper(), tuple(words)
        near = did_you_mean(word, known) if word and word not in known else ""
        raise syntax_error(self.here, f"found {token_text}, expected {expected}", hint=hint or near)


def column_names(cursor: TokenCursor) -> list[Token]:
    """Read ``(a, b)`` or ``a, b``."""
    inner = cursor.accept("(")
    names = [cursor.name("a column")]
    while cursor.accept(","):
        names.append(cursor.name("a column"))
    if inner:
        cursor.expect(")")
    return names


def relation_ref(parts: Tokens, *, aliased: bool) -> RelationRef:
    """The relation whose identifiers these are; INVALID_NAME if there are more than two."""
    span = span_of(parts)
    if len(parts) > MAX_NAME_PARTS:
        detail = "A name has at most two parts: schema.name"
        raise error("INVALID_NAME", span=span, name=span.text, detail=detail)
    return RelationRef(parts=tuple(part.text for part in parts), span=span, aliased=aliased)
