"""What can be measured of sentences that a reader understands the first time."""

import ast
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples/README.md"]
)
SCRIPTS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").glob("*.sql"))
MEDIAN_MAX = 20
SENTENCE_MAX = 45
"""Words of a sentence."""
LINKS = ("ctsql/catalog/", "ctsql/planner/", "ctsql/runtime/")
SUBJECT_MAX = 72
SUBJECTS_SINCE = "c027c3ce"
"""Subjects of older commits are as they are."""
HARD = re.compile(
    r"\b(anew|whoever|likewise|(?<!as )of\s+which|brought\s+(up|to\s+now)|stands?\s+still"
    r"|what\s+becomes\s+of|for\s+good|says\s+so)\b"
    r"|\bof\s+(its|their|one's)\s+own(?=[.,;:)])",
    re.IGNORECASE,
)
"""Words for which the field has a plainer one."""
NAMES = re.compile(r"`[^`]*`|^ *\w+:(?= )|^ *>>> .*\n.*", re.MULTILINE)
"""Where a docstring may have them: names of code, of arguments, and examples."""


def _without_code(text: str) -> str:
    """Markdown without blocks of code; ``code`` stands for what is between backticks."""
    text = re.sub(r"^```.*?^```$|^    [^\n]*$|<!--.*?-->", "\n\n", text, flags=re.M | re.S)
    return re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "code", text, flags=re.S)


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a document, those of lists and of tables' cells included."""
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", _without_code(text))
    for line in re.split(
        r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[|#])|^#.*$|<br>", text, flags=re.M
    ):
        cells = line.split("|") if line.lstrip().startswith("|") else [line]
        for cell in cells:
            yield from re.split(r"(?<=[.!?])\s+", " ".join(cell.split()))


def _length(sentence: str) -> int:
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_sentences_are_short(name: str) -> None:
    """Half of a document's sentences have at most 20 words, and none has more than 45."""
    sentences = [s for s in _sentences((ROOT / name).read_text("utf-8")) if _length(s) > 2]
    assert [s for s in sentences if _length(s) > SENTENCE_MAX] == []
    assert statistics.median(map(_length, sentences)) <= MEDIAN_MAX


def test_sentences_are_counted() -> None:
    """A sentence ends at its full stop, at the end of a cell, and at the next item."""
    text = (
        "# A\n\nOne two `a. b`. Three\nfour?\n\n- five\n- six\n\n| a. b | c |\n\n```sql\nx y\n```\n"
    )
    found = [s for s in _sentences(text) if s]
    assert found == ["One two code.", "Three four?", "- five", "- six", "a.", "b", "c"]
    assert _length("- a `b` c") == 3


@pytest.mark.parametrize("name", DOCUMENTS + SCRIPTS)
def test_words_of_documents_are_plain(name: str) -> None:
    """No document has a word of the list outside code, and no example in a comment."""
    text = _without_code((ROOT / name).read_text("utf-8"))
    assert [found[0] for found in HARD.finditer(text)] == []


def _modules() -> list[Path]:
    """The product's files under their real paths: the links in ctsql/ are not followed."""
    return [
        path
        for folder in ("catalog", "planner", "runtime", "ctsql")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(LINKS)
    ]


def _hard_words(source: str) -> Iterator[str]:
    """The words of the list in docstrings, those behind an attribute included."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                for found in HARD.finditer(NAMES.sub("", text)):
                    yield f"{node.lineno}: {' '.join(found[0].split())}"


def test_words_of_docstrings_are_plain() -> None:
    """No docstring of the product has a word of the list outside names."""
    files = _modules()
    assert len(files) > 300
    found = [
        f"{path.relative_to(ROOT)}:{one}" for path in files for one in _hard_words(path.read_text())
    ]
    assert found == []


def test_sentences_of_docstrings_are_short() -> None:
    """No sentence of a docstring is longer than the longest one of a document may be."""
    found = []
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = re.sub(r"^\[[\w-]+\] ", "\n", ast.get_docstring(node) or "", flags=re.M)
                found += [
                    f"{path.name}: {s}" for s in _sentences(text) if _length(s) > SENTENCE_MAX
                ]
    assert found == []


def test_hard_words_are_found() -> None:
    """In prose, across lines, and not in names."""
    prose = '"""Made anew, of\\nwhich one is as of which T."""\n'
    names = '"""anew: `anew`.\n\n>>> f()\n\'ANEW\'\n"""'
    assert list(_hard_words(prose + names)) == ["1: anew", "1: of which"]


def test_commit_subjects_are_short() -> None:
    """A subject fits into a line of every log."""
    git = ["git", "-C", str(ROOT)]
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    is_ancestor = [*git, "merge-base", "--is-ancestor", SUBJECTS_SINCE, "HEAD"]
    if subprocess.run(is_ancestor, capture_output=True).returncode:
        pytest.skip(f"this is not a clone with the commits since {SUBJECTS_SINCE}")
    log = [*git, "log", "--no-merges", "--format=%s", f"{SUBJECTS_SINCE}..HEAD"]
    subjects = subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [subject for subject in subjects if len(subject) > SUBJECT_MAX] == []
