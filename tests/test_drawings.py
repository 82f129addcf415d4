"""What scripts draw and list in documents is what the code is."""

import re
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


def test_the_rooms_are_those_of_the_import_contract() -> None:
    """Type: python docs/drawings/rooms.py."""
    script = runpy.run_path(str(FOLDER / "rooms.py"))
    assert script["document"]() == script["DOCUMENT"].read_text("utf-8")


def test_modules_that_the_architecture_names_are_there() -> None:
    """Whoever looks for a behaviour opens the file that stands beside it."""
    text = (FOLDER.parent / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:ctsql|runtime|planner|catalog|docs)/[\w/]+\.py)`", text)
    assert len(named) > 40
    root = FOLDER.parents[1]
    assert not [name for name in named if not (root / name).is_file()]
