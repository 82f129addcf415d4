"""What one program cannot read in the catalog: only what depends on it fails, by its name."""

import json
from collections.abc import Callable

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.items import Item, item_text
from ctsql.runtime.log.write_handle import Committed, OutputBatch
from ctsql.runtime.warehouse.stores.catalog_store import OBJECT, SUBSCRIPTION
from tests.helpers.items import changed
from tests.helpers.opened import engine_of, item_of
from tests.scenarios.runner import expect_error

SET_UP = """
CREATE TABLE feed (k INT);
CREATE TABLE other (k INT);
CREATE MATERIALIZED VIEW good AS SELECT k FROM feed;
CREATE CONTINUAL TASK fine ON INPUT feed AS (INSERT INTO fine SELECT k FROM feed);
CREATE VIEW broken AS SELECT k FROM other;
CREATE MATERIALIZED VIEW shattered AS SELECT k FROM feed;
CREATE MATERIALIZED VIEW above AS SELECT k FROM broken;
CREATE CONTINUAL TASK beyond ON INPUT shattered AS (INSERT INTO beyond SELECT k FROM shattered);
INSERT INTO feed VALUES (1);
SELECT * FROM good, fine, above, beyond;
"""


def rewrite(con: Connection, domain: str, text: str) -> None:
    """Put another text into the catalog's table, as a newer version or damage would."""
    store = engine_of(con).catalog_store
    upper = store._output.fetch_recent_upper()
    batch = store._output.open(upper)
    assert isinstance(batch, OutputBatch)
    batch.domains[domain] = text
    assert isinstance(
        store._output.compare_and_append([batch], expected=batch.lower, new=upper + 1), Committed
    )


def newer_definition(item: Item) -> str:
    """A statement that this version does not know."""
    newer = item.definition.text.replace("AS SELECT", "KEEPING FOREVER AS SELECT")
    return item_text(changed(item, definition=newer))


def newer_kind(item: Item) -> str:
    """An object of a kind that this version does not know, with its name and what it reads."""
    return json.dumps({**json.loads(item_text(item)), "kind": "semantic layer"})


def damaged(item: Item) -> str:
    """Not even JSON."""
    return item_text(item)[:40]


def refused(con: Connection, sql: str, name: str) -> None:
    """The statement fails by the name of what cannot be read."""
    problem = expect_error(con, sql, "STORED_DATA_INVALID")
    assert name in problem.message, sql


@pytest.mark.parametrize(("change", "other"), [(newer_kind, newer_definition), (damaged, damaged)])
def test_only_what_depends_on_it_fails(
    con: Connection, change: Callable[[Item], str], other: Callable[[Item], str]
) -> None:
    """A plain view and a materialized view are unreadable; the rest of the warehouse goes on."""
    con.execute(SET_UP)
    broken, shattered = item_of(con, "broken"), item_of(con, "shattered")
    rewrite(con, OBJECT + broken.id, change(broken))
    rewrite(con, OBJECT + shattered.id, other(shattered))
    names = ["broken", "shattered"]
    if change is damaged:
        names = [f"unreadable_{i.id[:8]}" for i in (broken, shattered)]
    con.execute("INSERT INTO feed VALUES (2)")
    for name in ("feed", "good", "fine"):
        assert sorted(con.execute(f"SELECT * FROM {name}").fetchall()) == [(1,), (2,)]
    for name, reader in zip(names, ("above", "beyond"), strict=True):
        refused(con, f"SELECT * FROM {name}", name)
        refused(con, f"SELECT * FROM {reader}", name)
    failures: list[str] = []
    with pytest.raises(CtsqlError, match="cannot be read"):
        con.run(once=True, on_event=lambda event: failures.append(event.message or ""))
    assert all(any(name in text for text in failures) for name in names), failures
    states = {row[2]: row[3] for row in con.status().fetchall()}
    assert (states["good"], states["fine"]) == ("up to date", "up to date")
    assert {states[n] for n in ("above", "beyond", names[1])} == {"unreadable"}
    assert {*names, "good"} <= {row[1] for row in con.execute("SHOW OBJECTS").fetchall()}
    con.execute("SHOW CONTINUAL TASKS; SHOW PENDING").fetchall()
    con.execute("CREATE MATERIALIZED VIEW later AS SELECT count(*) AS c FROM feed")
    assert con.execute("SELECT * FROM later").fetchall() == [(2,)]
    if change is damaged:
        refused(con, "MAINTAIN", "unreadable_")
    else:
        con.execute("MAINTAIN").fetchall()
    kind = "MATERIALIZED VIEW" if other is newer_definition else "TABLE"
    con.execute(f"DROP TABLE {names[0]} CASCADE; DROP {kind} {names[1]} CASCADE")
    con.run(once=True)
    left = {row[1] for row in con.execute("SHOW OBJECTS").fetchall()}
    assert not left & {*names}


def test_a_reader_that_cannot_be_read(con: Connection) -> None:
    """Its name says so; other readers and all objects go on; nothing it may need is removed."""
    con.execute("CREATE TABLE feed (k INT); INSERT INTO feed VALUES (1)")
    for name in ("first", "second"):
        con.execute(f"SUBSCRIBE TO feed UP TO NOW AS '{name}'").fetchall()
    rewrite(con, f"{SUBSCRIPTION}first", '{"id": "1", "who": "knows"}')
    con.execute("INSERT INTO feed VALUES (2)")
    assert len(con.execute("SUBSCRIBE TO feed UP TO NOW AS 'second'").fetchall()) == 1
    refused(con, "SUBSCRIBE TO feed UP TO NOW AS 'first'", "first")
    refused(con, "MAINTAIN", "first")
    con.execute("SHOW SUBSCRIPTIONS").fetchall()
    con.execute("DROP SUBSCRIPTION 'first'; MAINTAIN").fetchall()
