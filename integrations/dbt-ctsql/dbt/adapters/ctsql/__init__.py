"""The dbt adapter of ctsql."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.ctsql.connections import CtsqlConnectionManager, CtsqlCredentials
from dbt.adapters.ctsql.impl import CtsqlAdapter
from dbt.include import ctsql

__all__ = ["CtsqlAdapter", "CtsqlConnectionManager", "CtsqlCredentials", "Plugin"]

Plugin = AdapterPlugin(
    adapter=CtsqlAdapter,  # type: ignore[arg-type]
    credentials=CtsqlCredentials,
    include_path=ctsql.PACKAGE_PATH,
)
