"""The adapter's Python methods; the rest is in the macros."""

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.base.meta import available
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.ctsql.column import CtsqlColumn
from dbt.adapters.ctsql.connections import CtsqlConnectionManager
from dbt.adapters.ctsql.relation import CtsqlRelation
from dbt.adapters.sql import SQLAdapter
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.contracts.metadata import (
    CatalogTable,
    ColumnMetadata,
    StatsItem,
    TableMetadata,
)
from dbt_common.exceptions import DbtDatabaseError

if TYPE_CHECKING:
    import agate


_OPTIONS = re.compile(r"\bwith\s*\((.*?)\)\s*as\b", re.IGNORECASE | re.DOTALL)
_FIXED_OPTIONS = ("location", "deletion vectors")


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


class Description:
    """What ``DESCRIBE EXTENDED`` prints of an object.

    Attributes:
        columns: type and comment by name, in order.
        comment: of the object, or None.
    """

    def __init__(self, rows: Sequence[tuple[str | None, ...]]) -> None:
        columns = list(itertools.takewhile(lambda row: row[0], rows))
        details = {row[0]: row[1] for row in rows[len(columns) :]}
        self.columns = {str(name): (str(kind), comment) for name, kind, _, comment in columns}
        self.comment = details.get("# comment")

    def comment_of(self, column: str) -> str | None:
        """The comment of a column, found in any case."""
        comments = {name.casefold(): comment for name, (_, comment) in self.columns.items()}
        return comments.get(column.casefold())


class CtsqlAdapter(SQLAdapter):
    """dbt on a ctsql warehouse."""

    ConnectionManager = CtsqlConnectionManager
    Relation = CtsqlRelation
    Column = CtsqlColumn

    _capabilities = CapabilityDict(
        {
            Capability.GetCatalogForSingleRelation: CapabilitySupport(support=Support.Full),
            Capability.TableLastModifiedMetadata: CapabilitySupport(support=Support.Full),
        }
    )
    CONSTRAINT_SUPPORT: ClassVar[dict[ConstraintType, ConstraintSupport]] = {
        ConstraintType.check: ConstraintSupport.ENFORCED,
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.unique: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.primary_key: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.foreign_key: ConstraintSupport.NOT_SUPPORTED,
    }

    @classmethod
    def date_function(cls) -> str:
        """The function for the current time."""
        return "now()"

    @classmethod
    def quote(cls, identifier: str) -> str:
        """A name in backticks."""
        return "`" + identifier.replace("`", "``") + "`"

    # ---- definitions

    @available
    def column_list(
        self, columns: dict[str, Any], constraints: list[dict[str, Any]], kind: str = "table"
    ) -> str:
        """The columns of a contract with their constraints, in parentheses.

        Args:
            kind: of the object. A materialized view has no types; UNIQUE is for views and tasks.
        """
        adapter = type(self) if kind == "table" else OutputConstraints
        if kind == "materialized_view":
            columns = {name: {**column, "data_type": ""} for name, column in columns.items()}
        listed = adapter.render_raw_columns_constraints(raw_columns=columns)
        listed += adapter.render_raw_model_constraints(raw_constraints=constraints)
        return f"({', '.join(listed)})"

    @available.parse_none
    def option_changes(
        self, relation: CtsqlRelation, options: list[str]
    ) -> dict[str, list[str]] | None:
        """The options of a materialized view that differ from the wanted ones; None for none.

        Returns: ``replace`` has those that hold from the creation of a view on, ``alter`` others.
        """
        _, table = self.execute(f"show create {relation.keyword} {relation.render()}", fetch=True)
        stored = _OPTIONS.search(table.rows[0]["create_statement"])
        there = [_words(o) for o in re.split(r",\s*\n", stored[1])] if stored else []
        changes: dict[str, list[str]] = {"replace": [], "alter": []}
        for option in sorted({*there} ^ {_words(o) for o in options}):
            changes["replace" if option.startswith(_FIXED_OPTIONS) else "alter"].append(option)
        return changes if any(changes.values()) else None

    @available.parse_none
    def contract_changes(
        self, relation: CtsqlRelation, wanted: CtsqlRelation
    ) -> dict[str, list[str]] | None:
        """The statements that give a table the columns and constraints of another; None for none.

        Returns: statements to run ``before`` and ``after`` its rows and columns are replaced.
        """
        have, want = self._contract(relation), self._contract(wanted)
        if have == want:
            return None
        table = f"alter table {relation.render()}"
        checks = [f"add constraint {self.quote(name)} {rule}" for name, rule in want[1]]
        keeps = [f"alter column {self.quote(c)} set not null" for c, _, never in want[0] if never]
        return {
            "before": [f"{table} drop constraint {self.quote(name)}" for name, _ in have[1]],
            "after": [f"{table} {change}" for change in checks + keeps],
        }

    def _contract(self, relation: CtsqlRelation) -> tuple[list[Any], list[Any]]:
        _, columns = self.execute(f"describe {relation.render()}", fetch=True)
        _, checks = self.execute(f"show constraints for {relation.render()}", fetch=True)
        return (
            [(row["column"], row["type"], row["nullable"] == "NOT NULL") for row in columns.rows],
            [(row["constraint_name"], row["rule"]) for row in checks.rows],
        )

    # ---- types of seeds

    @classmethod
    def convert_text_type(cls, agate_table: "agate.Table", col_idx: int) -> str:
        """STRING."""
        return "string"

    @classmethod
    def convert_number_type(cls, agate_table: "agate.Table", col_idx: int) -> str:
        """DOUBLE with decimals, else BIGINT."""
        import agate

        return "double" if agate_table.aggregate(agate.MaxPrecision(col_idx)) else "bigint"

    @classmethod
    def convert_integer_type(cls, agate_table: "agate.Table", col_idx: int) -> str:
        """BIGINT."""
        return "bigint"

    @classmethod
    def convert_datetime_type(cls, agate_table: "agate.Table", col_idx: int) -> str:
        """TIMESTAMP."""
        return "timestamp"

    @classmethod
    def convert_time_type(cls, agate_table: "agate.Table", col_idx: int) -> str:
        """STRING: Spark's TIME cannot be stored by Delta."""
        return "string"

    # ---- what there is

    def list_schemas(self, database: str) -> list[str]:
        """The schemas of the warehouse."""
        _, table = self.execute("show schemas", fetch=True)
        return [row[0] for row in table.rows]

    def check_schema_exists(self, database: str, schema: str) -> bool:
        """Whether there is a schema; names are found in any case."""
        return schema.casefold() in (name.casefold() for name in self.list_schemas(database))

    def list_relations_without_caching(self, schema_relation: CtsqlRelation) -> list[CtsqlRelation]:
        """The objects of a schema; none if there is no such schema."""
        schema = schema_relation.schema
        if not self.check_schema_exists("", schema):
            return []
        _, table = self.execute(f"show objects in {self.quote(schema)}", fetch=True)
        kinds = self.Relation.get_relation_type
        return [
            self.Relation.create(
                database=schema_relation.database,
                schema=row["schema"],
                identifier=row["name"],
                type=kinds("table" if kind == "task_output" else kind),
            )
            for row in table.rows
            if (kind := row["kind"].replace(" ", "_")) in (*kinds, "task_output")
        ]

    @available
    def query_relation(self, sql: str) -> CtsqlRelation:
        """A query, for macros that read a relation."""
        return self.Relation.create(
            identifier=f"(\n{sql}\n)",
            type=self.Relation.CTE,
            quote_policy={"identifier": False},
            include_policy={"schema": False},
        )

    @available.parse_none
    def describe(self, relation: CtsqlRelation) -> Description:
        """The columns of an object, and its comments."""
        _, table = self.execute(f"describe extended {relation.render()}", fetch=True)
        return Description([tuple(row) for row in table.rows])

    def get_columns_in_relation(self, relation: CtsqlRelation) -> list[CtsqlColumn]:
        """The columns of an object, or of a :meth:`query_relation`; none if it does not exist.

        dbt compiles a project before its objects exist.
        """
        if relation.is_cte:
            return self.get_column_schema_from_query(f"select * from {relation} where false")
        try:
            columns = self.describe(relation).columns.items()
        except DbtDatabaseError as problem:
            condition = getattr(problem.__cause__, "condition", "")
            if condition in ("UNKNOWN_RELATION", "UNKNOWN_SCHEMA"):
                return []
            raise
        return [self.Column(name, kind) for name, (kind, _) in columns]

    def expand_column_types(self, goal: CtsqlRelation, current: CtsqlRelation) -> None:
        """Do nothing: texts have no size."""

    @available.parse(lambda *_, **__: [])
    def get_column_schema_from_query(self, sql: str) -> list[CtsqlColumn]:
        """The columns of a query, which is not run."""
        _, cursor = self.connections.add_select_query(sql)
        return [self.Column(name, kind) for name, kind, *_ in cursor.description]

    def valid_incremental_strategies(self) -> list[str]:
        """The strategies of incremental models."""
        return ["append", "merge", "delete+insert", "insert_overwrite", "microbatch"]

    def run_sql_for_tests(self, sql: str, fetch: str, conn: Any) -> Any:
        """Run SQL of dbt's own tests."""
        cursor = conn.handle.cursor()
        cursor.execute(sql)
        return {"one": cursor.fetchone, "all": cursor.fetchall}.get(fetch, lambda: None)()

    # ---- documents and freshness

    def _get_one_catalog(
        self, information_schema: Any, schemas: set[str], used_schemas: frozenset[tuple[str, str]]
    ) -> "agate.Table":
        """The columns of all objects of some schemas, with statistics."""
        from dbt_common.clients.agate_helper import table_from_data_flat

        database, rows = self.config.credentials.database, []
        sizes = self._sizes()
        for schema in sorted(schemas):
            place = self.Relation.create(database=database, schema=schema)
            for relation in self.list_relations_without_caching(place):
                table = self._catalog_table(relation, sizes)
                common = {f"table_{key}": value for key, value in table.metadata.to_dict().items()}
                for item in table.stats.values():
                    of_item = item.to_dict()
                    key = f"stats:{of_item.pop('id')}"
                    common |= {f"{key}:{name}": value for name, value in of_item.items()}
                for column in table.columns.values():
                    of_column = column.to_dict()
                    rows.append(common | {f"column_{k}": v for k, v in of_column.items()})
        names = list(dict.fromkeys(name for row in rows for name in row))
        found = table_from_data_flat([dict.fromkeys(names) | row for row in rows], names)
        return self._catalog_filter_table(found, used_schemas)

    def get_catalog_for_single_relation(self, relation: CtsqlRelation) -> CatalogTable:
        """The columns of one object, with statistics."""
        return self._catalog_table(relation, self._sizes())

    def _sizes(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The stored rows and bytes, by schema and name."""
        sql = (
            "select o.schema, o.name, s.rows, s.bytes from system.storage as s"
            " join system.objects as o on s.object = o.object where s.part = 'rows'"
        )
        _, table = self.execute(sql, fetch=True)
        return {
            (row["schema"].casefold(), row["name"].casefold()): dict(row.items())
            for row in table.rows
        }

    def _catalog_table(
        self, relation: CtsqlRelation, sizes: dict[tuple[str, str], dict[str, Any]]
    ) -> CatalogTable:
        described = self.describe(relation)
        size = sizes.get((relation.schema.casefold(), relation.identifier.casefold()), {})
        return CatalogTable(
            metadata=TableMetadata(
                type="BASE TABLE" if relation.is_table else relation.keyword,
                schema=relation.schema,
                name=relation.identifier,
                database=relation.database,
                comment=described.comment,
                owner=None,
            ),
            columns={
                name: ColumnMetadata(type=kind, index=index, name=name, comment=comment)
                for index, (name, (kind, comment)) in enumerate(described.columns.items(), 1)
            },
            stats={
                key: StatsItem(
                    id=key,
                    label=label,
                    value=float(size[key]),
                    include=True,
                    description=f"{label} that are stored now",
                )
                for key, label in (("rows", "Rows"), ("bytes", "Bytes"))
                if size.get(key) is not None
            },
        )

    def calculate_freshness_from_metadata_batch(
        self, sources: list[CtsqlRelation], macro_resolver: Any = None
    ) -> tuple[list[AdapterResponse | None], dict[CtsqlRelation, Any]]:
        """The T of each source's last commit: when readers first saw its newest rows."""
        handle = self.connections.get_thread_connection().handle
        now = datetime.now(UTC)
        found = {}
        for source in sources:
            commits = handle.commits(source.render())
            last = datetime.fromtimestamp(commits[-1].t / 1000, UTC) if commits else None
            found[source] = self._create_freshness_response(last, now)
        return [None], found


class OutputConstraints(CtsqlAdapter):
    """Renders the constraints of views and tasks, which may be UNIQUE."""

    CONSTRAINT_SUPPORT: ClassVar[dict[ConstraintType, ConstraintSupport]] = {
        **CtsqlAdapter.CONSTRAINT_SUPPORT,
        ConstraintType.unique: ConstraintSupport.ENFORCED,
    }
