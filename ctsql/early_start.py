"""Starts the JVM of a command that will surely ask for it, before the command line is imported.

What a command does is known for sure when its statements are parsed, half a second later. So this
is a guess from its words: where it is wrong, the JVM is ended when the command is done. Imports
little, as all that it imports comes before.
"""

import os
import re
from collections.abc import Sequence

from ctsql.warm.client import positional

_ANSWERED_BY_LOGS = re.compile(r"\s*(SHOW|DESC|DESCRIBE|\\|$)", re.IGNORECASE)
_TEXT = re.compile(r"(?s)(?:-c|--command=)(.+)")
COMMANDS = ("run", "status", "serve", "dump", "plan", "rehearse", "apply", "cool", "test")
"""The words that stand for a command in the place of a file."""
_ENDS_AT_ONCE = ("-h", "--help", "-v", "--version", "--master", "--keep-warm")


def begin_early(arguments: Sequence[str], *, is_terminal: bool) -> None:
    """Start a JVM for the command line of these arguments, if it is a command that needs one.

    Args:
        is_terminal: whether standard input is a terminal.
    """
    texts = texts_of(arguments)
    if not needs_spark(arguments, texts, is_terminal=is_terminal):
        return
    from ctsql.runtime.spark.jvm_options import Life
    from ctsql.runtime.spark.jvm_start import begin

    if os.path.isdir(os.curdir):  # else no Java starts there, and the command line says so
        begin(None, Life.SHORT if texts else Life.LONG)


def texts_of(arguments: Sequence[str]) -> list[str]:
    """The statements of ``-c``.

    >>> texts_of(["-w", "w", "-c", "SELECT 1", "-cSELECT 2", "--command=SELECT 3"])
    ['SELECT 1', 'SELECT 2', 'SELECT 3']
    """
    texts: list[str] = []
    words = iter(arguments)
    for argument in words:
        if argument in ("-c", "--command"):
            texts += [next(words, "")]
        elif (match := _TEXT.fullmatch(argument)) is not None:
            texts.append(match[1])
    return texts


def needs_spark(arguments: Sequence[str], texts: Sequence[str], *, is_terminal: bool) -> bool:
    """Whether it surely looks as if a command needs a Spark of its own.

    >>> needs_spark([], ["SHOW TABLES"], is_terminal=False)
    False
    >>> needs_spark([], ["SHOW TABLES; SELECT 1"], is_terminal=False)  # nobody reads so far
    False
    >>> needs_spark([], ["SELECT 1"], is_terminal=True), needs_spark(["run"], [], is_terminal=True)
    (True, True)
    >>> needs_spark(["status"], [], is_terminal=True), needs_spark([], [], is_terminal=True)
    (False, False)
    >>> needs_spark(["a.sql"], [], is_terminal=True), needs_spark([], [], is_terminal=False)
    (True, True)

    Args:
        texts: those of ``-c``.
    """
    if any(a.split("=")[0] in _ENDS_AT_ONCE for a in arguments):
        return False
    if texts:
        return not all(map(_ANSWERED_BY_LOGS.match, texts))
    words = positional(arguments)
    if not words:
        return not is_terminal
    return words[0] == "run" or words[0] not in COMMANDS
