"""How rows arrive: the rounds of the battery, for each home that a table can have.

A home says who made the table ``t`` and who writes it. Each arrival is one commit of ``t``, of
``u``, or of both at one T, so that a model of a task can replay it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.differential.kinds import DELTA_RS, Kind

if TYPE_CHECKING:
    from tests.differential.battery_tables import World

Arrive = Callable[["World"], None]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One way in which rows arrive."""

    name: str
    arrive: Arrive


# ---- by ctsql


def insert(world: "World") -> None:
    world.con.execute(f"INSERT INTO t {world.fresh()}")


def insert_again(world: "World") -> None:
    """Rows that are there already, a second time."""
    world.con.execute("INSERT INTO t SELECT * FROM t WHERE id % 3 <> 1")


def update(world: "World") -> None:
    world.con.execute(f"UPDATE t SET {world.assignments()} WHERE id % 3 = 0")


def delete(world: "World") -> None:
    world.con.execute(f"DELETE FROM t WHERE id % 4 = {world.salt % 4}")


def delete_everything(world: "World") -> None:
    world.con.execute("DELETE FROM t")


MERGE = """MERGE INTO {t} AS t USING ({rows}) AS s ON t.id = s.id
    WHEN MATCHED AND s.id % 3 = 0 THEN DELETE
    WHEN MATCHED THEN UPDATE SET {set}
    WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"""


def _merge(world: "World", table: str) -> str:
    names = world.columns
    return MERGE.format(
        t=table,
        rows=world.over_some(),
        set=", ".join(f"{n} = s.{n}" for n in names if n != "id"),
        names=", ".join(names),
        values=", ".join(f"s.{n}" for n in names),
    )


def merge(world: "World") -> None:
    world.con.execute(_merge(world, "t"))


def overwrite(world: "World") -> None:
    world.con.execute(f"INSERT OVERWRITE t {world.over_some()}")


def other_table(world: "World") -> None:
    """Only ``u`` changes."""
    world.con.execute(f"INSERT INTO u {world.fresh()}")


def transaction(world: "World") -> None:
    """Both tables change at one T."""
    world.con.execute(
        f"BEGIN; INSERT INTO t {world.fresh()}; DELETE FROM t WHERE id % 5 = 1; "
        f"UPDATE u SET {world.assignments()} WHERE id % 2 = 0; DELETE FROM u WHERE id % 5 = 0; "
        "COMMIT"
    )


def nothing_net(world: "World") -> None:
    """A commit that takes every row out and puts it back."""
    world.con.execute("UPDATE t SET g = g")


# ---- by a Spark that knows nothing of ctsql


def spark_append(world: "World") -> None:
    frame = world.plain.sql(world.fresh())
    frame.write.format("delta").mode("append").save(world.path("t"))


def spark_overwrite(world: "World") -> None:
    frame = world.plain.sql(world.over_some())
    frame.write.format("delta").mode("overwrite").save(world.path("t"))


def spark_merge(world: "World") -> None:
    world.plain.sql(_merge(world, f"delta.`{world.path('t')}`"))


def spark_update(world: "World") -> None:
    world.plain.sql(f"UPDATE delta.`{world.path('t')}` SET {world.assignments()} WHERE id % 3 = 1")


def spark_delete(world: "World") -> None:
    world.plain.sql(f"DELETE FROM delta.`{world.path('t')}` WHERE id % 4 = {world.salt % 4}")


def spark_optimize(world: "World") -> None:
    """No row changes."""
    world.plain.sql(f"OPTIMIZE delta.`{world.path('t')}`")


# ---- by delta-rs


def rs_append(world: "World") -> None:
    from deltalake import write_deltalake

    write_deltalake(world.path("t"), world.arrow(world.fresh()), mode="append")


def rs_overwrite(world: "World") -> None:
    from deltalake import write_deltalake

    write_deltalake(world.path("t"), world.arrow(world.over_some()), mode="overwrite")


def rs_delete(world: "World") -> None:
    from deltalake import DeltaTable

    DeltaTable(world.path("t")).delete(f"id % 4 = {world.salt % 4}")


def _named(*arrivals: Arrive) -> tuple[Arrival, ...]:
    return tuple(Arrival(one.__name__.replace("_", " "), one) for one in arrivals)


OWN = _named(
    insert, update, delete, insert_again, merge, other_table, transaction, nothing_net,
    overwrite, delete, delete_everything, insert,
)  # fmt: skip
SPARK = _named(
    spark_append, spark_delete, spark_update, insert, spark_merge, spark_optimize, spark_delete,
    spark_overwrite, other_table, transaction, delete_everything, spark_append,
)  # fmt: skip
RS = _named(rs_append, rs_delete, rs_append, rs_overwrite, other_table, rs_delete, rs_append)


@dataclass(frozen=True, slots=True)
class Home:
    """Who made the table ``t``.

    Attributes:
        made_by: "ctsql", "Spark" or "delta-rs". properties: of the table, for Spark.
        partitioned: by the columns of types that can be one.
    """

    name: str
    made_by: str
    arrivals: tuple[Arrival, ...]
    properties: str = ""
    partitioned: bool = False

    def takes(self, kind: Kind) -> bool:
        """Can a table of this home have a column of the type?"""
        return self.made_by != "delta-rs" or DELTA_RS in kind.can


_NO_FEED = "'delta.enableChangeDataFeed' = 'false'"
HOMES = (
    Home("own", "ctsql", OWN),
    Home("partitioned", "ctsql", OWN, partitioned=True),
    Home("foreign", "Spark", SPARK, f"{_NO_FEED}, 'delta.enableDeletionVectors' = 'false'"),
    Home("foreign with vectors", "Spark", SPARK,
         f"{_NO_FEED}, 'delta.enableDeletionVectors' = 'true'"),
    Home("foreign with a feed", "Spark", SPARK,
         "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"),
    Home("delta-rs", "delta-rs", RS),
)  # fmt: skip
BY_NAME = {home.name: home for home in HOMES}
