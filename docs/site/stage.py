"""Copies the documents to build/site-source, from which zensical.toml builds the site.

The copy has the repository's paths, so a link works in both. In the copy the words that tests read
behind a block's language become the block's title.
"""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "docs", "examples")
STAGED = ROOT / "build" / "site-source"
_WORDS = re.compile(r"^(```\w+) (error|file) (\S+)$", re.MULTILINE)


def staged(text: str) -> str:
    """The text of a document as the site shows it."""
    heads = {"error": "refused with ", "file": ""}
    return _WORDS.sub(lambda block: f'{block[1]} title="{heads[block[2]]}{block[3]}"', text)


def main() -> None:
    """Replace the copy."""
    shutil.rmtree(STAGED, ignore_errors=True)
    STAGED.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, STAGED / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, STAGED / name)
    shutil.copy(ROOT / "docs" / "site" / "iframe-worker.js", STAGED)
    for page in STAGED.rglob("*.md"):
        page.write_text(staged(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
