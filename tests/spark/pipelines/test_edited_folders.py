"""A folder that is edited again and again makes what it would make in a new warehouse."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ctsql.api import Connection, connect as open_connection
from ctsql.cli.folder_commands import exit_code
from tests.conftest import TEST_MASTER
from tests.helpers.opened import engine_of
from tests.helpers.sql_folder import applied, planned
from tests.scenarios.runner import assert_rows

WIDER = {"SMALLINT": "INT", "INT": "BIGINT", "BIGINT": "BIGINT"}
STEPS = 6


@dataclass
class EditedFolder:
    """A folder with one table, and what reads it."""

    choose: random.Random
    columns: dict[str, str] = field(default_factory=lambda: {"k": "INT", "a": "SMALLINT"})
    defaults: dict[str, int] = field(default_factory=dict)
    constraints: dict[str, str] = field(default_factory=dict)
    number: int = 0

    def edit(self) -> None:
        """Change one to three things of the table."""
        for _ in range(self.choose.randint(1, 3)):
            name = self.choose.choice(list(self.columns))
            match self.choose.randrange(5):
                case 0 | 1:
                    self.number += 1
                    kind = f"DECIMAL({self.number + 5}, 0)"
                    self.columns[f"n{self.number}"] = self.choose.choice(["INT", kind])
                case 2:
                    self.columns[name] = WIDER.get(self.columns[name], self.columns[name])
                case 3:
                    self.defaults[name] = self.choose.randrange(9)
                    if self.choose.random() < 0.3:
                        del self.defaults[name]
                case 4 if name != "k" and self.columns[name] == "BIGINT":
                    self.constraints[name] = self.choose.choice(
                        [f"CHECK ({name} < 1000)", f"CHECK ({name} > -9)"]
                    )
                case _:
                    self.constraints.pop(name, None)

    def text(self) -> str:
        """The folder."""
        listed = [
            f"{name} {kind}" + (f" DEFAULT {self.defaults[name]}" if name in self.defaults else "")
            for name, kind in self.columns.items()
        ]
        listed += [f"CONSTRAINT of_{n} {rule}" for n, rule in self.constraints.items()]
        last = list(self.columns)[-1]
        return f"""
        CREATE TABLE t ({", ".join(listed)}, CONSTRAINT always CHECK (k IS NOT NULL));
        CREATE VIEW p AS SELECT * FROM t WHERE k > 0;
        CREATE MATERIALIZED VIEW every AS SELECT * FROM p;
        CREATE MATERIALIZED VIEW some AS SELECT k, a, {last} AS last_one FROM t;
        CREATE MATERIALIZED VIEW sums AS SELECT k, count({last}) AS n FROM every GROUP BY k;
        CREATE CONTINUAL TASK c (k INT) ON INPUT t AS (INSERT INTO c SELECT k FROM t);
        """


def _shapes(con: Connection) -> dict[str, object]:
    """Columns, types, defaults and constraints of all objects, in no order."""
    engine = engine_of(con)
    catalog = engine.refresh_catalog()
    found: dict[str, object] = {
        str(i.name): {(c.name, c.type, c.nullable) for c in engine.relations.columns_now(i)}
        for i in catalog
    }
    (table,) = (i for i in catalog if str(i.name) == "t")
    metadata = engine.relations.table(table).metadata
    found["defaults"] = {
        name: column.field["metadata"].get("CURRENT_DEFAULT")
        for name, column in metadata.columns.items()
    }
    shown = con.execute("SHOW CONSTRAINTS FOR t")
    told = [shown.columns.index(name) for name in ("constraint_name", "rule")]
    found["constraints"] = {str([row[place] for place in told]) for row in shown.fetchall()}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_as_in_a_new_warehouse(seed: int, con: Connection, tmp_path: Path) -> None:
    """Tables, views and what they hold; and a second apply has nothing to do."""
    made = EditedFolder(random.Random(seed))
    applied(con, made.text())
    keys = []
    for step in range(STEPS):
        keys.append((step + 1,))
        con.execute(f"INSERT INTO t (k, a) VALUES ({step + 1}, {step})")
        made.edit()
        text = made.text()
        applied(con, text, prune=True)
        assert exit_code(planned(con, text, prune=True)) == 0, text
        with open_connection(str(tmp_path / f"new{step}"), master=TEST_MASTER) as new:
            applied(new, text)
            assert _shapes(con) == _shapes(new), text
        for name, query in (("every", "SELECT * FROM t"), ("some", None), ("sums", None)):
            found = con.execute(f"SELECT * FROM {name}").fetchall()
            assert len(found) == step + 1, (name, text)
            if query is not None:
                columns = ", ".join(made.columns)
                rows = con.execute(f"SELECT {columns} FROM t").fetchall()
                stored = con.execute(f"SELECT {columns} FROM {name}").fetchall()
                assert_rows(stored, rows, text)
        assert_rows(con.execute("SELECT k FROM c").fetchall(), keys, text)
