"""How a value travels through a task: bodies, each with the query that says what it means.

``{o}`` is the output, ``{c}`` the column under test of ``t``, ``{a}`` a value of its type. A
meaning gives the output after a run from what it held before, ``{p}``, and from the rows that the
model finds by comparing the table before and after: ``inserted`` and ``deleted`` row by row,
``changed`` each row once with ``diff``; ``t`` and ``u`` are the tables as of T.
"""

from dataclasses import dataclass

from tests.differential.kinds import EQUAL, GROUP, SORT, Kind, column


@dataclass(frozen=True, slots=True)
class TaskWay:
    """One body.

    Attributes:
        columns: of the output; None for those of ``t``. needs: what a type must be able to do.
        reads_deletes: it also runs at a T at which rows were only deleted.
    """

    name: str
    columns: str | None
    body: str
    meaning: str
    needs: frozenset[str] = frozenset()
    reads_deletes: bool = False

    def fits(self, kind: Kind) -> bool:
        """Does Spark run it for a type?"""
        return self.needs <= kind.can

    def filled(self, text: str, kind: Kind, output: str, before: str) -> str:
        """One of the texts for a type."""
        return text.format(o=output, p=before, c=column(kind), a=kind.literals[0], type=kind.sql)


_EQUAL, _GROUP, _SORT = frozenset({EQUAL}), frozenset({GROUP, EQUAL}), frozenset({SORT, EQUAL})
_COUNTED = "SELECT {c}, CAST(max(id) AS INT) AS m, count(*) AS n FROM "
_OF_T = _COUNTED + "t GROUP BY {c}"
_OF_INSERTED = _COUNTED + "inserted GROUP BY {c}"

TASK_WAYS = (
    TaskWay("log", None, "INSERT INTO {o} SELECT * FROM t",
            "SELECT * FROM {p} UNION ALL SELECT * FROM inserted"),
    TaskWay("log of deletes", None, "INSERT INTO {o} SELECT * FROM deletes(t)",
            "SELECT * FROM {p} UNION ALL SELECT * FROM deleted", reads_deletes=True),
    TaskWay("log of changes", "id INT, {c} {type}, diff BIGINT",
            "INSERT INTO {o} SELECT id, {c}, diff FROM changes(t)",
            "SELECT * FROM {p} UNION ALL SELECT id, {c}, diff FROM changed", reads_deletes=True),
    TaskWay("upsert", "{c} {type}, m INT, n BIGINT",
            "DELETE FROM {o} WHERE {c} IN (SELECT {c} FROM t); INSERT INTO {o} " + _OF_T,
            "SELECT * FROM {p} p WHERE NOT EXISTS (SELECT 1 FROM inserted i WHERE i.{c} = p.{c}) "
            "UNION ALL " + _OF_INSERTED, _GROUP),
    TaskWay("upsert of pairs", "{c} {type}, g INT, m INT",
            "DELETE FROM {o} WHERE (g, {c}) IN (SELECT g, {c} FROM t); INSERT INTO {o} "
            "SELECT {c}, g, CAST(max(id) AS INT) AS m FROM t GROUP BY {c}, g",
            "SELECT * FROM {p} p WHERE NOT EXISTS (SELECT 1 FROM inserted i WHERE i.{c} = p.{c} "
            "AND i.g = p.g) UNION ALL SELECT {c}, g, CAST(max(id) AS INT) AS m FROM inserted "
            "GROUP BY {c}, g", _GROUP),
    TaskWay("merge", "{c} {type}, m INT, n BIGINT",
            "MERGE INTO {o} USING (" + _OF_T + ") AS s ON {o}.{c} = s.{c} "
            "WHEN MATCHED AND s.n > 3 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET m = s.m, n = {o}.n + s.n "
            "WHEN NOT MATCHED THEN INSERT ({c}, m, n) VALUES (s.{c}, s.m, s.n)",
            "SELECT p.{c}, coalesce(s.m, p.m) AS m, p.n + coalesce(s.n, 0) AS n FROM {p} p "
            "LEFT JOIN (" + _OF_INSERTED + ") s ON p.{c} = s.{c} WHERE coalesce(s.n, 0) <= 3 "
            "UNION ALL SELECT * FROM (" + _OF_INSERTED + ") s WHERE NOT EXISTS "
            "(SELECT 1 FROM {p} p WHERE p.{c} = s.{c})", _GROUP),
    TaskWay("update", "{c} {type}, n INT",
            "UPDATE {o} SET n = n + 1 WHERE {c} IN (SELECT {c} FROM t); "
            "INSERT INTO {o} SELECT {c}, 0 FROM (SELECT DISTINCT {c} FROM t) s WHERE NOT EXISTS "
            "(SELECT 1 FROM {o} o WHERE o.{c} <=> s.{c})",
            "SELECT {c}, n + CASE WHEN EXISTS (SELECT 1 FROM inserted i WHERE i.{c} = p.{c}) "
            "THEN 1 ELSE 0 END AS n FROM {p} p UNION ALL SELECT {c}, 0 AS n FROM "
            "(SELECT DISTINCT {c} FROM inserted) s WHERE NOT EXISTS "
            "(SELECT 1 FROM {p} p WHERE p.{c} <=> s.{c})", _SORT),
    TaskWay("deleted with them", "{c} {type}, id INT",
            "DELETE FROM {o} WHERE {c} IN (SELECT {c} FROM deletes(t)); "
            "INSERT INTO {o} SELECT {c}, id FROM t",
            "SELECT * FROM {p} p WHERE NOT EXISTS (SELECT 1 FROM deleted d WHERE d.{c} = p.{c}) "
            "UNION ALL SELECT {c}, id FROM inserted", _EQUAL, reads_deletes=True),
    TaskWay("compared with a value", "{c} {type}, id INT",
            "DELETE FROM {o} WHERE {c} = {a} AND id % 2 = 0; "
            "INSERT INTO {o} SELECT {c}, id FROM t WHERE {c} = {a} OR id % 3 = 0",
            "SELECT * FROM {p} WHERE NOT coalesce({c} = {a} AND id % 2 = 0, false) "
            "UNION ALL SELECT {c}, id FROM inserted WHERE {c} = {a} OR id % 3 = 0", _EQUAL),
    TaskWay("contents", "{c} {type}, n BIGINT",
            "DELETE FROM {o}; INSERT INTO {o} SELECT {c}, count(*) AS n FROM contents(t) "
            "GROUP BY {c}", "SELECT {c}, count(*) AS n FROM t GROUP BY {c}", _GROUP),
    TaskWay("joined", "{c} {type}, id INT, id2 INT",
            "INSERT INTO {o} SELECT t.{c}, t.id, u.id AS id2 FROM t JOIN u ON t.{c} = u.{c}",
            "SELECT * FROM {p} UNION ALL SELECT i.{c}, i.id, u.id AS id2 FROM inserted i "
            "JOIN u ON i.{c} = u.{c}", _EQUAL),
)  # fmt: skip
BY_NAME = {way.name: way for way in TASK_WAYS}
