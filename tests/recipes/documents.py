"""Runs the code blocks of a document, in order, in one warehouse.

Where a document says ``warehouse``, the test's own is meant.

| block | what is done with it |
|---|---|
| ``sql`` | runs; if a ``text`` block follows at once, it is what the last statement prints |
| ``sql error CONDITION`` | each statement must be refused with that condition |
| ``sql file PATH`` | is written to that file |
| ``python`` | runs; names are kept for the document; ``expression  # -> value`` is compared |
| ``console`` | lines with ``$``: ``make`` jobs must exist, ``ctsql`` with something to run is run |
|  | and must print the lines that follow; so are ``ctsql test`` and ``plan``, whose seconds and |
|  | bytes do not matter, and ``apply`` with a folder that was written; |
|  | other commands are only shown |
| ``text`` or none | shown |
"""

import ast
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.spans import Source, Span
from ctsql.cli.main import main
from ctsql.planner.syntax import split
from ctsql.rendering.show import Format, write_result

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_VARIES = re.compile(r" +\d+\.\d+ s\b| [\d.]+ (bytes|kB)\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
"""What no two runs have in common: seconds, bytes, instants."""
_EXPECTED = re.compile(r"\s+# -> (?P<value>.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block; ``output`` is the text block that follows at once."""

    kind: str
    words: tuple[str, ...]
    body: str
    line: int
    output: str | None


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a document."""
    found = list(_FENCE.finditer(text))
    for number, here in enumerate(found):
        output = None
        following = found[number + 1] if number + 1 < len(found) else None
        if following is not None and following["info"].strip() == "text":
            between = text[here.end() : following.start()]
            output = None if between.strip() else following["body"]
        kind, *words = here["info"].split() or [""]
        line = text.count("\n", 0, here.start()) + 1
        yield Block(kind, tuple(words), here["body"], line, output)


class Document:
    """A document and the warehouse its blocks run in."""

    def __init__(self, path: Path, con: Connection, root: Path) -> None:
        self.path = path
        self.con = con
        self.jobs = set(re.findall(r"^(\w+):", (root / "Makefile").read_text(), re.MULTILINE))
        self.names: dict[str, Any] = {}

    def run(self) -> int:
        """Run all blocks; gives their number."""
        count = 0
        for block in blocks(self.path.read_text()):
            runner = getattr(self, f"_run_{block.kind}", None)
            if runner is not None:
                try:
                    runner(block)
                except CtsqlError as refused:
                    raise AssertionError(f"{self._place(block)}: {refused}") from refused
                count += 1
        return count

    def _place(self, block: Block) -> str:
        return f"{self.path.name}:{block.line}"

    def _run_sql(self, block: Block) -> None:
        if block.words[:1] == ("file",):
            path = Path(block.words[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body)
            return
        printed = ""
        for span in split(Source(block.body, self._place(block))):
            if block.words[:1] == ("error",):
                self._refused(span, block)
                continue
            printed = self._printed(span)
        if block.output is not None:
            assert printed == block.output, self._place(block)

    def _printed(self, span: Span) -> str:
        """Run a statement; gives what the command line prints of its rows."""
        out = io.StringIO()
        write_result(self.con.run_statement(span), Format.TABLE, out, terminal=False)
        return out.getvalue()

    def _refused(self, span: Span, block: Block) -> None:
        with pytest.raises(CtsqlError) as refused:
            self._printed(span)
        assert refused.value.condition == block.words[1], f"{self._place(block)}: {refused.value}"

    def _run_python(self, block: Block) -> None:
        body = block.body.replace('"warehouse"', repr(self.con.warehouse))
        lines = body.splitlines()
        for statement in ast.parse(body).body:
            last = lines[(statement.end_lineno or 1) - 1]
            wanted = _EXPECTED.search(last)
            code = ast.Module([statement], [])
            if wanted is None:
                exec(compile(code, self._place(block), "exec"), self.names)
                continue
            assert isinstance(statement, ast.Expr), f"{self._place(block)}: {last}"
            found = eval(
                compile(ast.Expression(statement.value), self._place(block), "eval"), self.names
            )
            assert repr(found) == wanted["value"], f"{self._place(block)}: {last}"

    def _run_console(self, block: Block) -> None:
        for line, wanted in _commands(block.body):
            words = [self.con.warehouse if w == "warehouse" else w for w in shlex.split(line)]
            if words[0] == "make":
                assert set(words[1:]) <= self.jobs, f"{self._place(block)}: {line}"
            elif {"test", "plan"} & {*words} and wanted:
                done = CliRunner().invoke(main, words[1:])
                assert done.exit_code in (0, 1, 2), f"{self._place(block)}: {line}\n{done.output}"
                assert _timeless(done.stdout) == _timeless(wanted), (
                    f"{self._place(block)}: {line}\n{done.stdout}"
                )
            elif words[0] == "ctsql" and ("-c" in words or "--once" in words or _has_folder(words)):
                done = CliRunner().invoke(main, words[1:])
                codes = (0, 2) if "plan" in words else (0,)
                assert done.exit_code in codes, f"{self._place(block)}: {line}\n{done.output}"
                if wanted:
                    assert done.output == wanted, f"{self._place(block)}: {line}"


def _timeless(output: str) -> str:
    return _VARIES.sub(" N", output)


def _has_folder(words: list[str]) -> bool:
    """Whether a command plans or applies a folder that a block has written."""
    return bool({"plan", "apply"} & {*words}) and any(Path(w).is_dir() for w in words[1:])


def _commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command with the output shown below it."""
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
    assert not parts[0].strip(), "a console block begins with a command"
    for part in parts[1:]:
        line, _, output = part.partition("\n")
        yield line, output
