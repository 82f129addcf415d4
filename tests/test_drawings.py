"""The drawings of the documents are what their script draws, and stand in a document."""

import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "drawings"


def test_the_files_are_what_the_script_draws() -> None:
    """Type: python docs/drawings/draw.py."""
    script = runpy.run_path(str(FOLDER / "draw.py"))
    drawn = script["files"]([draw() for draw in script["PICTURES"]])
    stored = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.svg")}
    assert stored == drawn


def test_each_stands_in_a_document() -> None:
    """With a text for readers who do not see it."""
    documents = [FOLDER.parents[1] / "README.md", *FOLDER.parent.glob("*.md")]
    texts = "\n".join(path.read_text("utf-8") for path in documents)
    for path in FOLDER.glob("*.svg"):
        assert f"drawings/{path.name})" in texts, path.name
