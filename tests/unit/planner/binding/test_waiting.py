"""Which definitions may wait for a time, told by their texts."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ctsql.catalog.catalog import Catalog
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Definition, ObjectKind
from ctsql.catalog.spans import Source
from ctsql.planner.binding.binder import refresh_parts
from ctsql.planner.binding.definitions import may_wait
from ctsql.planner.syntax import parse, split
from ctsql.planner.syntax.ast import CreateContinualTask, CreateMaterializedView
from tests.helpers.items import changed
from tests.unit.planner.binding.catalog_by_hand import FEED, item

REPOSITORY = Path(__file__).parents[4]
_BLOCK = re.compile(r"```sql\n(.*?)```", re.DOTALL)
_VIEW, _TASK = ObjectKind.MATERIALIZED_VIEW, ObjectKind.CONTINUAL_TASK
_BODY = "ON INPUT feed AS (INSERT INTO x SELECT key FROM feed)"


def _texts() -> Iterator[str]:
    """Whatever SQL the repository has: of examples, of the documentation, and of tests."""
    for path in REPOSITORY.glob("examples/*.sql"):
        yield path.read_text()
    for path in (*REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("*.md")):
        yield from _BLOCK.findall(path.read_text())
    for path in REPOSITORY.glob("tests/**/*.slt"):
        yield from path.read_text().split("\n\n")


def _definitions() -> Iterator[CreateContinualTask | CreateMaterializedView]:
    for text in _texts():
        begin = text.find("CREATE")
        with suppress(CtsqlError):
            for span in split(Source(text[max(begin, 0) :])):
                with suppress(CtsqlError):
                    statement = parse(span)
                    if isinstance(statement, CreateContinualTask | CreateMaterializedView):
                        yield statement


def _waits(statement: CreateContinualTask | CreateMaterializedView) -> bool:
    """As the statement itself says it, once it is read."""
    if isinstance(statement, CreateMaterializedView):
        return refresh_parts(statement) is not None or bool(statement.query.clocks)
    return any(o.name in ("TRIM EVERY", "COALESCE") for o in statement.options)


def test_whatever_waits_has_a_word_of_time() -> None:
    """[words-of-time], of all definitions of the repository; and nearly all others have none."""
    counts = Counter[tuple[bool, bool]]()
    for statement in _definitions():
        kind = _TASK if isinstance(statement, CreateContinualTask) else _VIEW
        made = item(kind, "x", "key int", definition=statement.span.text, reads=[FEED])
        waits, may = _waits(statement), may_wait(Catalog.of([FEED, made]), made)
        assert may or not waits, statement.span.text
        counts[waits, may] += 1
    assert counts[True, True] > 10, counts
    assert counts[False, False] > 5 * counts[False, True], counts


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (_VIEW, "CREATE MATERIALIZED VIEW x WITH (refresh every '1 day') AS SELECT key FROM feed"),
        (_VIEW, "CREATE MATERIALIZED VIEW x WITH (REFRESH AT CREATION) AS SELECT key FROM feed"),
        (_VIEW, "CREATE MATERIALIZED VIEW x AS SELECT key FROM feed WHERE val < now()"),
        (_VIEW, "CREATE MATERIALIZED VIEW x AS SELECT key FROM feed WHERE val < Current_Date"),
        (_TASK, f"CREATE CONTINUAL TASK x (key INT) WITH (TRIM EVERY = '1 hour') {_BODY}"),
        (_TASK, f"CREATE CONTINUAL TASK x (key INT) WITH (coalesce = '1 hour') {_BODY}"),
        # Spark's and our keywords are compared in upper case, and so is this.
        (_VIEW, "CREATE MATERIALIZED VIEW x WITH (refreſh every '1 day') AS SELECT key FROM feed"),
    ],
)
def test_spellings_of_time(kind: ObjectKind, text: str) -> None:
    """Each way to say a time, in any case; without it nothing waits."""
    made = item(kind, "x", "key int", definition=text, reads=[FEED])
    assert _waits(parse(Source(text).whole()))  # type: ignore[arg-type]
    assert may_wait(Catalog.of([FEED, made]), made)
    plain = "CREATE MATERIALIZED VIEW x AS SELECT key FROM feed"
    assert not may_wait(Catalog.of([FEED]), changed(made, definition=plain))


def test_the_clock_of_a_plain_view_counts() -> None:
    """It is read by whoever reads the view, through others, too."""
    text = "CREATE VIEW recent AS SELECT key FROM feed WHERE val < now()"
    recent = item(ObjectKind.VIEW, "recent", "key int", definition=text, reads=[FEED])
    text = "CREATE VIEW above AS SELECT key FROM recent"
    above = item(ObjectKind.VIEW, "above", "key int", definition=text, reads=[recent])
    text = "CREATE MATERIALIZED VIEW x AS SELECT key FROM above"
    made = item(_VIEW, "x", "key int", definition=text, reads=[above])
    text = "CREATE MATERIALIZED VIEW y AS SELECT key FROM x"
    behind = item(_VIEW, "y", "key int", definition=text, reads=[made])
    catalog = Catalog.of([FEED, recent, above, made, behind])
    assert may_wait(catalog, made)
    assert not may_wait(catalog, behind)


def test_an_older_definition_counts() -> None:
    """It is in force until the newest one is; and one that is in force at one T alone is due."""
    newest = f"CREATE CONTINUAL TASK x (key INT) {_BODY}"
    older = f"CREATE CONTINUAL TASK x (key INT) WITH (TRIM EVERY = '1 hour') {_BODY}"
    task = item(_TASK, "x", "key int", definition=newest, reads=[FEED])
    catalog = Catalog.of([FEED, task])
    assert not may_wait(catalog, task)
    before = Definition(number=0, text=older, reads=task.reads)
    assert may_wait(catalog, changed(task, revision=1, earlier=(before,)))
    once = replace(before, text=newest, copies_rows=True)
    assert may_wait(catalog, changed(task, revision=1, earlier=(once,)))
