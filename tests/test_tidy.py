"""Functions and classes stay small, files say what they are for, and nothing is left for later."""

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("catalog", "planner", "runtime", "ctsql")
FUNCTION_LINES_MAX = 70
METHODS_MAX = 25
PURPOSE_LINES_MAX = 14
"""Of a module's docstring, without its last quotes."""


def _files(*folders: str) -> list[Path]:
    """Python files under their real paths: the links in ctsql/ are not followed."""
    found: list[Path] = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT).parts
            if not any((ROOT / Path(*inside[:n])).is_symlink() for n in range(1, len(inside))):
                found.append(path)
    return found


FILES = _files(*PRODUCT, "tests", "benchmarks", "examples")
MODULES = _files(*PRODUCT)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_are_found() -> None:
    """The tests below would pass without a word on an empty list."""
    assert {"catalog/errors.py", "planner/nodes.py", "tests/test_tidy.py"} <= set(map(_name, FILES))
    assert not any(_name(path).startswith("ctsql/catalog") for path in FILES)


def _long_functions(tree: ast.AST) -> Iterator[str]:
    """A function can be read on one screen."""
    for function in _functions(tree):
        length = (function.end_lineno or 0) - function.lineno + 1
        if length > FUNCTION_LINES_MAX:
            yield f"{function.name} has {length} lines"


def _large_classes(tree: ast.AST) -> Iterator[str]:
    """A class does one thing; what has more methods than this is several."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef) for m in node.body)
            if methods > METHODS_MAX:
                yield f"{node.name} has {methods} methods"


def _unsaid_purpose(tree: ast.Module) -> Iterator[str]:
    """Every module begins with a sentence."""
    docstring = ast.get_docstring(tree) or ""
    if not docstring.split("\n\n")[0].rstrip().endswith((".", ":", "?")):
        yield "its docstring does not begin with a sentence"


def _long_purpose(tree: ast.Module) -> Iterator[str]:
    """A module's docstring is long only to state invariants, or an algorithm with its source."""
    docstring = ast.get_docstring(tree) or ""
    length = docstring.count("\n") + 1
    if length > PURPOSE_LINES_MAX and not (INVARIANT.search(docstring) or "Source:" in docstring):
        yield f"its docstring has {length} lines"


def _left_for_later(text: str) -> Iterator[str]:
    """What is missing is said under "Not yet" in a docstring, or it is not there."""
    for mark in re.findall(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b", text):
        yield f"it has {mark}"


def _caught_unnamed(tree: ast.AST) -> Iterator[str]:
    """What is caught is what is understood; raising it again, or by a future, is no catching."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            last = node.body[-1]
            raised_again = isinstance(last, ast.Raise) and last.exc is None
            raised_again |= ".set_exception(" in ast.unparse(last)
            if not raised_again and caught in ("everything", "Exception", "BaseException"):
                yield f"line {node.lineno} catches {caught}"


INVARIANT = re.compile(r"^\[([a-zA-Z]+(?:-[a-zA-Z]+)+)\] ", re.MULTILINE)
"""An invariant in a module's docstring: its name, and what holds."""


def test_invariants_have_names_of_their_own() -> None:
    """A letter and a number would stand in several modules, and say nothing where it is used."""
    texts = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in MODULES}
    names = [name for text in texts.values() for name in INVARIANT.findall(text)]
    assert len(names) > 100
    assert len(names) == len(set(names))
    lettered = [_name(p) for p, t in texts.items() if re.search(r"^[A-Z]\d: ", t, re.MULTILINE)]
    assert lettered == []
    claimed = re.compile(r'^    """((?:\[[a-zA-Z-]+\](?:, | and )?)+)', re.MULTILINE)
    tests = "\n".join(p.read_text() for p in FILES if p.name.startswith("test_"))
    used = {one for claim in claimed.findall(tests) for one in re.findall(r"[a-zA-Z-]+-\w+", claim)}
    assert len(used) > 15
    assert used <= set(names)


def test_rules_find_what_they_forbid() -> None:
    """Each rule has something to say of a file that breaks it."""
    body = "\n".join(["    pass"] * FUNCTION_LINES_MAX)
    methods = "\n".join(f"    def m{i}(self): ..." for i in range(METHODS_MAX + 1))
    assert list(_long_functions(ast.parse(f"def f():\n{body}"))) == ["f has 71 lines"]
    assert list(_large_classes(ast.parse(f"class A:\n{methods}"))) == ["A has 26 methods"]
    assert list(_unsaid_purpose(ast.parse('"""No sentence"""'))) != []
    assert list(_unsaid_purpose(ast.parse("a = 1"))) != []
    lines = "\n".join(["One."] * (PURPOSE_LINES_MAX + 1))
    assert list(_long_purpose(ast.parse(f'"""{lines}"""'))) == ["its docstring has 15 lines"]
    assert list(_long_purpose(ast.parse(f'"""{lines}\n\n[a-rule] it holds."""'))) == []
    assert list(_left_for_later("# TO" + "DO: all")) == ["it has TO" + "DO"]
    caught = "try:\n    f()\nexcept Exception:\n    "
    assert list(_caught_unnamed(ast.parse(caught + "pass"))) == ["line 3 catches Exception"]
    assert list(_caught_unnamed(ast.parse(caught + "raise"))) == []


def test_files_are_tidy() -> None:
    """Each file is read once, for all rules."""
    problems = []
    for path in FILES:
        text = path.read_text()
        tree = ast.parse(text)
        found = [*_long_functions(tree), *_unsaid_purpose(tree), *_left_for_later(text)]
        if path in MODULES:
            found += [*_large_classes(tree), *_long_purpose(tree), *_caught_unnamed(tree)]
        problems += [f"{_name(path)}: {one}" for one in found]
    assert problems == []


DOCTESTED = [path for path in MODULES if ">>> " in path.read_text()]


@pytest.mark.parametrize("path", DOCTESTED, ids=_name)
def test_examples_in_docstrings_hold(path: Path) -> None:
    """An example in a docstring is run or it does not exist."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts if parts[0] == "ctsql" else ("ctsql", *parts))
    module = importlib.import_module(name.removesuffix(".__init__"))
    failed, attempted = doctest.testmod(module)
    assert attempted > 0
    assert failed == 0


KINDS_OF_ROWS = {"DataFrame", "LocalRows", "RowSet", "SparkRows"}


def _asked_kinds(code: str) -> set[str]:
    """The kinds of rows that some code asks for, by ``isinstance`` or ``match``."""
    asked: list[ast.AST] = []
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                asked.append(kinds)
            case ast.MatchClass():
                asked.append(node.cls)
    inside = [one for kinds in asked for one in ast.walk(kinds)]
    names = {one.id for one in inside if isinstance(one, ast.Name)}
    return KINDS_OF_ROWS & (names | {one.attr for one in inside if isinstance(one, ast.Attribute)})


def test_only_rows_knows_the_kinds_of_rows() -> None:
    """Whoever has rows need not ask whether the driver or Spark holds them: a RowSet does it."""
    assert _asked_kinds("isinstance(found(a, b), (int, rows.LocalRows))") == {"LocalRows"}
    assert _asked_kinds("match a:\n  case sql.DataFrame(): pass") == {"DataFrame"}
    asking = [f for f in MODULES if _asked_kinds(f.read_text())]
    assert {str(f.relative_to(ROOT)) for f in asking} == {
        "runtime/rows/prepared_rows.py",
        "runtime/rows/row_set.py",
    }
