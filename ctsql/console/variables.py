r"""Variables of a script: ``--set name=value``, ``\set name value``, and ``:name`` in a text. Pure.

``:name`` stands for the value as it is, ``:'name'`` for a string, ``:"name"`` for an identifier.
Only variables that are set are replaced, and nothing inside strings, quoted names and comments. A
path into a VARIANT (``v:name``) has no blank in front of its colon and is not replaced.

Source: psql's manual, "SQL Interpolation".
"""

import re
from collections.abc import Mapping

from ctsql.catalog.names import backtick
from ctsql.planner.literals import literal

NAME = re.compile(r"[A-Za-z_]\w*")
_PIECE = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|$)|(?<![\w\])}:`'"]):(?:'(?P<string>[A-Za-z_]\w*)'"""
    r"""|"(?P<quoted>[A-Za-z_]\w*)"|(?P<bare>[A-Za-z_]\w*))"""
    r"""|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""",
    re.DOTALL,
)


def substitute(text: str, variables: Mapping[str, str]) -> str:
    r"""Replace the variables in a text.

    >>> substitute("SELECT :n, :'n', ':n', a::int FROM :\"t\"", {"n": "1", "t": "odd t"})
    "SELECT 1, '1', ':n', a::int FROM `odd t`"
    """
    if not variables:
        return text

    def value(match: re.Match[str]) -> str:
        name = match["string"] or match["quoted"] or match["bare"]
        if name is None or name not in variables:
            return match[0]
        if match["string"]:
            return literal(variables[name])
        return backtick(variables[name]) if match["quoted"] else variables[name]

    return _PIECE.sub(value, text)
