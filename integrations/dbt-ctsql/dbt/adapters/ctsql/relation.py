"""Relations: a name in a schema of the warehouse, and the kind of object it is."""

from dataclasses import dataclass, field

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.relation import ComponentName, Policy
from dbt.adapters.utils import classproperty
from dbt_common.dataclass_schema import StrEnum


class CtsqlRelationType(StrEnum):
    """dbt's kinds of relations, and continual tasks."""

    Table = "table"
    View = "view"
    CTE = "cte"
    MaterializedView = "materialized_view"
    ContinualTask = "continual_task"
    External = "external"
    Ephemeral = "ephemeral"
    Function = "function"


@dataclass(frozen=True, eq=False, repr=False)
class CtsqlRelation(BaseRelation):
    """``schema.name``: a warehouse is one database, which SQL does not name."""

    type: CtsqlRelationType | None = None  # type: ignore[assignment]
    quote_character: str = "`"
    require_alias: bool = False  # Spark takes a subquery without one
    include_policy: Policy = field(
        default_factory=lambda: Policy(database=False, schema=True, identifier=True)
    )

    @classproperty
    def get_relation_type(cls) -> "type[CtsqlRelationType]":
        """The class of ``type``."""
        return CtsqlRelationType

    @property
    def keyword(self) -> str:
        """Its kind, as statements spell it: ``MATERIALIZED VIEW``."""
        return str(self.type or CtsqlRelationType.Table).replace("_", " ").upper()

    def _is_exactish_match(self, field: ComponentName, value: str) -> bool:
        """Whether a part of the name is this one; ctsql finds names in any case."""
        return self.path.get_lowered_part(field) == value.lower()
