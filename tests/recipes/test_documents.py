"""What the documents show is what happens, and what they name is there."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ctsql.api import Connection
from tests.recipes.documents import Document, blocks

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples/README.md"]
)
REFERENCE = "docs/sql-reference.md"
"""Lists the pages of the reference; their blocks run in this order, in one warehouse."""
RUN = [
    name
    for name in DOCUMENTS
    if any(b.kind in ("sql", "python") for b in blocks((ROOT / name).read_text()))
    and not name.startswith("docs/reference/")
] + [REFERENCE]
LONG = {REFERENCE} | {n for n in RUN if n.startswith("docs/recipes/")}
FIRST_READ = {"README.md", "docs/guide.md"}
FOLDERS = (
    "benchmarks", "catalog", "ctsql", "docs", "examples", "planner", "runtime", "tests", ".ci",
)  # fmt: skip
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.]+(/[\w.-]+)+/?|\w+\.(py|sql|md|toml|json)")


def test_there_are_documents_to_run() -> None:
    """An empty list would pass without a word."""
    assert {"README.md", "docs/guide.md", REFERENCE} <= set(RUN)
    assert len(_pages(REFERENCE)) > 10


def _pages(name: str) -> list[str]:
    """The documents whose blocks run together: of the reference those that its index lists."""
    if name != REFERENCE:
        return [name]
    listed = re.findall(
        r"^\| \[[^]]+\]\(([\w/-]+\.md)\) \|", (ROOT / name).read_text(), re.MULTILINE
    )
    return [f"docs/{page}" for page in listed]


def test_the_reference_lists_its_pages() -> None:
    """A page that is not listed would not run."""
    pages = {name for name in DOCUMENTS if name.startswith("docs/reference/")}
    assert sorted(pages) == sorted(_pages(REFERENCE))


def _lane(name: str) -> list[pytest.MarkDecorator]:
    if name in LONG:
        return [pytest.mark.slow]
    return [pytest.mark.core] if name in FIRST_READ else []


@pytest.mark.spark
@pytest.mark.parametrize("name", [pytest.param(n, marks=_lane(n)) for n in RUN])
def test_blocks_run(
    name: str,
    connect: Callable[[], Connection],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every block of a document runs and prints what the document says."""
    monkeypatch.chdir(tmp_path)
    con = connect()
    con.start()
    names: dict[str, object] = {}
    for page in _pages(name):
        document = Document(ROOT / page, con, ROOT)
        document.names = names
        assert document.run(), page


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_and_files_are_there(name: str) -> None:
    """A relative link, and a file named in code, exist."""
    document = ROOT / name
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    missing = [
        target
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
        if not re.match(r"https?:|mailto:|#", target)
        and not (document.parent / target.split("#")[0]).exists()
    ]
    for named in _CODE.findall(text):
        is_ours = named.split("/")[0] in FOLDERS and "/" in named
        if is_ours and _PATH.fullmatch(named) and not (ROOT / named).exists():
            missing.append(named)
    assert missing == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_fences_come_in_pairs(name: str) -> None:
    """A fence too many would hide the blocks behind it from the tests."""
    begun = ""
    for line in (ROOT / name).read_text("utf-8").splitlines():
        if line.startswith("```"):
            assert not begun or line == "```", f"{line} within {begun}"
            begun = "" if begun else line
    assert not begun


def test_links_to_headings_lead_somewhere() -> None:
    """A link to a heading of a document names one that is there."""
    broken = []
    for name in DOCUMENTS:
        document = ROOT / name
        for target, heading in re.findall(r"\]\(([^)\s#]*)#([^)\s]+)\)", document.read_text()):
            if target.startswith("http"):
                continue
            text = (document.parent / target).read_text() if target else document.read_text()
            slugs = {
                re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
                for line in text.splitlines()
                if line.startswith("#")
            }
            if heading not in slugs:
                broken.append(f"{name}: {target}#{heading}")
    assert broken == []


def test_decisions_are_few_short_and_listed() -> None:
    """At most 45 files; a page has three parts in 200 words, and stands once in the index."""
    folder = ROOT / "docs" / "decisions"
    pages = sorted(folder.glob("0*.md"))
    assert 30 < len(pages) < 45
    for page in pages:
        text = page.read_text("utf-8")
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
        ], page.name
        words = [word for word in text.split() if re.search(r"\w", word)]
        assert len(words) <= 200, f"{page.name} has {len(words)} words"
    index = (folder / "README.md").read_text("utf-8")
    assert sorted(re.findall(r"\((0[^)]+)\)", index)) == [page.name for page in pages]


@pytest.mark.parametrize("name", [n for n in DOCUMENTS if n.startswith("docs/")])
def test_pages_are_short(name: str) -> None:
    """A page is read in one go: 250 lines at most."""
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= 250
