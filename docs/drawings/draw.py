"""Draws the pictures of the documents: python docs/drawings/draw.py writes the SVG files beside it.

A picture is a list of shapes with places in pixels, so that one that is wrong is mended where it
stands. Tests compare the files with what this draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

FONT = "font-family: system-ui, sans-serif; font-size: 13px; fill: #1b2733"
INK, PALE = "#3b5b7a", "#8fa3b5"
FILLS = {"table": "#dcecf9", "ours": "#fdebc8", "people": "#eef0f2", "gone": "#fbdcd9"}
LINE_HEIGHT = 17


@dataclass
class Picture:
    """One drawing: ``title`` is also its text for readers who do not see it."""

    name: str
    title: str
    width: int
    height: int
    shapes: list[ElementTree.Element] = field(default_factory=list)

    def _add(self, kind: str, text: str = "", **attributes: object) -> None:
        given = {name.replace("_", "-"): str(value) for name, value in attributes.items()}
        shape = ElementTree.Element(kind, given)
        shape.text = text or None
        self.shapes.append(shape)

    def text(self, x: int, y: int, label: str, *, anchor: str = "middle", style: str = "") -> None:
        """Lines of text around or from a point; ``y`` is the base of the first."""
        for number, line in enumerate(label.split("\n")):
            place = {"x": x, "y": y + number * LINE_HEIGHT}
            self._add("text", line, **place, text_anchor=anchor, style=f"{FONT}; {style}")

    def box(self, x: int, y: int, width: int, height: int, label: str, kind: str) -> None:
        """A rounded box with text in its middle; ``kind`` is one of :data:`FILLS`."""
        self._add("rect", x=x, y=y, width=width, height=height, rx=8, fill=FILLS[kind], stroke=INK)
        lines = label.count("\n")
        self.text(x + width // 2, y + height // 2 + 5 - lines * LINE_HEIGHT // 2, label)

    def arrow(self, *points: tuple[int, int], label: str = "", dashed: bool = False) -> None:
        """A line through points with a head at its end, and a text above its middle."""
        path = " ".join(f"{x},{y}" for x, y in points)
        dashes = {"stroke_dasharray": "5 4"} if dashed else {}
        self._add(
            "polyline", points=path, fill="none", stroke=INK, marker_end="url(#head)", **dashes
        )
        (x1, y1), (x2, y2) = points[0], points[-1]
        if label:
            lift = 7 + label.count("\n") * LINE_HEIGHT
            self.text((x1 + x2) // 2, (y1 + y2) // 2 - lift, label, style="font-size: 12px")

    def dot(self, x: int, y: int, label: str) -> None:
        """A commit on a line, with its name above."""
        self._add("circle", cx=x, cy=y, r=6, fill=INK)
        self.text(x, y - 13, label)

    def rule(self, x1: int, x2: int, y: int) -> None:
        """A pale line, on which commits stand."""
        self._add("line", x1=x1, x2=x2, y1=y, y2=y, stroke=PALE, stroke_width=2)

    def svg(self) -> str:
        """The file's text."""
        root = ElementTree.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {self.width} {self.height}",
                "width": str(self.width),
                "height": str(self.height),
                "role": "img",
            },
        )
        ElementTree.SubElement(root, "title").text = self.title
        head = ElementTree.SubElement(
            ElementTree.SubElement(root, "defs"),
            "marker",
            {
                "id": "head", "viewBox": "0 0 8 8", "refX": "7", "refY": "4",
                "markerWidth": "8", "markerHeight": "8", "orient": "auto",
            },
        )  # fmt: skip
        ElementTree.SubElement(head, "path", {"d": "M0,0 L8,4 L0,8 z", "fill": INK})
        size = {"width": str(self.width), "height": str(self.height), "fill": "white", "rx": "10"}
        ElementTree.SubElement(root, "rect", size)
        root.extend(self.shapes)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode") + "\n"


def pipeline() -> Picture:
    """What stands between a table and its readers."""
    p = Picture("pipeline", "Tables, a task and a view, and who writes and reads them", 760, 230)
    p.box(15, 75, 120, 70, "any writer:\nSpark, delta-rs,\nSQL, files", "people")
    p.arrow((135, 110), (178, 110))
    p.box(180, 85, 110, 50, "prices\na Delta table", "table")
    p.arrow((290, 110), (328, 110))
    p.box(330, 75, 160, 70, "continual task:\nDELETE old prices;\nINSERT new ones", "ours")
    p.arrow((490, 110), (528, 110))
    p.box(530, 85, 120, 50, "current_price\na Delta table", "table")
    p.arrow((590, 135), (590, 165))
    p.box(510, 167, 160, 48, "materialized view dear\na Delta table", "ours")
    p.arrow((650, 110), (680, 110))
    p.arrow((670, 191), (680, 191))
    p.box(682, 75, 68, 140, "any\nreader:\nSpark,\nDuckDB,\nPolars", "people")
    p.text(410, 48, "runs once for each commit of prices,", style="font-size: 12px")
    p.text(410, 64, "and commits all it does at once", style="font-size: 12px")
    p.text(400, 187, "refreshed from the changes,", style="font-size: 12px")
    p.text(400, 203, "not recomputed", style="font-size: 12px")
    return p


def timeline() -> Picture:
    """How commits of several tables get times."""
    p = Picture("timeline", "Each commit of a source gets a time T; outputs commit at T", 760, 300)
    rows = {60: "orders", 115: "rates", 180: "the timeline", 245: "task's output"}
    for y, name in rows.items():
        p.text(15, y + 5, name, anchor="start", style="font-weight: 600")
        p.rule(140, 740, y)
    for x, y, version in ((210, 60, "version 4"), (440, 115, "version 9"), (640, 60, "version 5")):
        p.dot(x, y, version)
    for x, time in ((210, "T1"), (440, "T2"), (640, "T3")):
        p.dot(x, 180, time)
    for x, said in ((210, "+2 -0"), (640, "+1 -1")):
        p.dot(x, 245, said)
        p.arrow((x, 192), (x, 216), dashed=True)
    p.arrow((210, 68), (210, 155), dashed=True)
    p.arrow((440, 123), (440, 155), dashed=True)
    p.arrow((640, 68), (640, 155), dashed=True)
    p.text(440, 213, "rates is only read: nothing runs at T2,", style="font-size: 12px")
    p.text(440, 229, "and the run at T3 sees version 9", style="font-size: 12px")
    p.text(440, 283, "AS OF T2 reads orders 4, rates 9, and the output as it was written at T1")
    return p


def exactly_once() -> Picture:
    """What makes a run count once."""
    p = Picture("exactly-once", "Two processes run the same T; one commit is accepted", 760, 260)
    p.box(15, 25, 150, 56, "process A:\nruns the body at T3", "ours")
    p.box(15, 175, 150, 56, "process B:\nruns the body at T3", "ours")
    p.arrow((165, 53), (248, 53), label="files")
    p.arrow((165, 203), (248, 203), label="files")
    p.box(250, 25, 140, 56, "staged: nobody\nsees them yet", "people")
    p.box(250, 175, 140, 56, "staged: nobody\nsees them yet", "people")
    p.arrow((390, 53), (500, 53), (530, 100))
    p.arrow((390, 203), (500, 203), (530, 160))
    p.text(442, 45, "if upper = T3", style="font-size: 12px")
    p.text(442, 222, "if upper = T3", style="font-size: 12px")
    p.box(500, 102, 130, 56, "the output's log:\nupper T3", "table")
    p.box(620, 25, 130, 56, "A is in:\nupper T3 + 1", "table")
    p.box(620, 175, 130, 56, "B is refused:\ndrops its files", "gone")
    p.arrow((565, 102), (565, 53), (618, 53))
    p.arrow((565, 158), (565, 203), (618, 203))
    p.text(325, 122, "A process that is killed leaves the upper", style="font-size: 12px")
    p.text(325, 138, "as it is, or moved: T3 is run again, or not.", style="font-size: 12px")
    return p


def incremental_view() -> Picture:
    """How a view is kept."""
    p = Picture("incremental-view", "A view is changed by the changes of what it reads", 760, 250)
    p.box(15, 30, 150, 56, "what changed in\nthe sources at T", "table")
    p.arrow((165, 58), (228, 58))
    p.box(230, 25, 170, 66, "change query:\nthe view's query, made\nfor changed rows", "ours")
    p.arrow((400, 58), (458, 58))
    p.box(460, 30, 130, 56, "desired rows of\nthe groups it hits", "people")
    p.arrow((590, 58), (628, 58))
    p.box(630, 25, 115, 66, "desired\n- stored\n= one commit", "ours")
    p.box(230, 165, 170, 56, "state beside the view:\ncounts, sums per group", "table")
    p.box(630, 165, 115, 56, "the view:\na Delta table", "table")
    p.arrow((315, 165), (315, 93))
    p.arrow((670, 165), (670, 93))
    p.arrow((705, 93), (705, 163))
    p.arrow((525, 88), (525, 193), (402, 193))
    cost = "the cost follows\nwhat changed,\nnot the tables' size"
    p.text(15, 150, cost, anchor="start", style="font-size: 12px")
    p.text(660, 135, "stored", anchor="end", style="font-size: 12px")
    return p


PICTURES = (pipeline, timeline, exactly_once, incremental_view)


def files(pictures: Sequence[Picture]) -> dict[str, str]:
    """File names and texts."""
    return {f"{picture.name}.svg": picture.svg() for picture in pictures}


if __name__ == "__main__":
    for name, svg in files([draw() for draw in PICTURES]).items():
        (Path(__file__).parent / name).write_text(svg, encoding="utf-8")
