"""The site of the documents has every page, and shows every block."""

import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path

import ctsql

ROOT = Path(__file__).resolve().parents[2]
SITE = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]


def _pages(entry: object) -> Iterator[str]:
    """The pages of a part of the navigation."""
    match entry:
        case str():
            yield entry
        case list():
            for one in entry:
                yield from _pages(one)
        case dict():
            for one in entry.values():
                yield from _pages(one)


def test_each_page_is_in_the_navigation_once() -> None:
    """A page that is left out is found by search only."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"]
    assert sorted(_pages(SITE["nav"])) == sorted(str(page.relative_to(ROOT)) for page in pages)
    assert [next(iter(part)) for part in SITE["nav"]] == [
        "Start",
        "How-to",
        "Reference",
        "Explanation",
    ]


def test_the_site_has_every_block_with_its_language_or_title() -> None:
    """Other words behind a language make the block a paragraph, and hide what follows it."""
    staged = runpy.run_path(str(ROOT / "docs" / "site" / "stage.py"))["staged"]
    assert staged("```sql error X_Y\n") == '```sql title="refused with X_Y"\n'
    assert staged("```sql file a/b.sql\n") == '```sql title="a/b.sql"\n'
    unknown = [
        f"{name}: {head}"
        for name in _pages(SITE["nav"])
        for head in re.findall(r"^```.+$", staged((ROOT / name).read_text("utf-8")), re.MULTILINE)
        if not re.fullmatch(r'```\w+( title="[^"]+")?', head)
    ]
    assert unknown == []


def test_the_api_page_has_every_public_name() -> None:
    """What ``import ctsql`` gives is documented."""
    text = (ROOT / "docs" / "python-api.md").read_text("utf-8")
    named = set(re.findall(r"^::: ctsql\.(\w+)$|`(\w+)`", text, re.MULTILINE))
    names = {one or other for one, other in named}
    assert set(ctsql.__all__) - {"__version__"} <= names


def test_nothing_is_fetched_from_elsewhere() -> None:
    """The site is read without a network: no web fonts, and a copy of the search's script."""
    assert SITE["theme"]["font"] is False
    assert [one["path"] for one in SITE["extra"]["polyfills"]] == ["iframe-worker.js"]
