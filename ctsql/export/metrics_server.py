"""``ctsql run --metrics``: a page with the service's metrics, for Prometheus.

The server's thread collects them, one page after the other; the service never waits for it. On a
local disk it reads the lags without Spark; elsewhere by a separate engine, with a session cloned
from the service's.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, make_asgi_app

from ctsql.catalog.errors import CtsqlError
from ctsql.export import http_server
from ctsql.export.side_reader import SideReader
from ctsql.runtime.delta.log.local_log import NeedsSpark
from ctsql.runtime.monitoring.metrics import Counts, JvmMemory, Lags, ServiceMetrics
from ctsql.runtime.monitoring.objects import LagRow
from ctsql.runtime.monitoring.status import Pulse
from ctsql.runtime.monitoring.system_tables import system_rows

if TYPE_CHECKING:
    from ctsql.api import Connection
    from ctsql.runtime.log_reader import LogReader
    from ctsql.runtime.service.events import Event


class Metrics:
    """The metrics of what a connection runs."""

    def __init__(self, connection: "Connection") -> None:
        self.pulse = Pulse()
        self._counts = Counts()
        self._connection = connection
        self._reader = SideReader(connection, may_start=False)

    def note(self, event: "Event") -> None:
        """Count an event of the service."""
        if event.refresh is not None:
            self._counts.add_refresh(event.refresh, event.seconds)
            if event.quarantine_of is not None:
                self._counts.add_quarantined(event.quarantine_of, event.inserted or 0)
        elif event.condition is not None:
            self._counts.add_failure(event.name, event.condition)

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[str]:
        """Serve them inside the block; yields the page's address. Port 0 is any free port.

        Raises INVALID_USAGE: the address cannot be listened at.
        """
        registry = CollectorRegistry()
        registry.register(ServiceMetrics(self._counts, self.pulse, Lags(self.lags), self._memory))
        ProcessCollector(registry=registry)
        with http_server.served(make_asgi_app(registry), host, port, "metrics") as address:
            yield f"{address}/metrics"

    def lags(self) -> Sequence[LagRow]:
        """The lag of each object, or nothing while it needs Spark that has not started."""
        try:
            return self._reader(self._look)
        except NeedsSpark:
            return ()

    def _look(self, reader: "LogReader") -> Sequence[LagRow]:
        rows: list[LagRow] = system_rows(reader, "lag")
        for item in reader.catalog:
            if item.quarantine is not None:
                self._counts.add_quarantined(str(item.name), 0)  # so its first row counts
        return rows

    def _memory(self) -> JvmMemory:
        """The memory of the JVM; nothing before Spark has started, or when it is gone."""
        service = self._connection._engine
        if service is None:
            return {}
        from ctsql.runtime.spark.failures.errors import translate_spark_errors
        from ctsql.runtime.spark.internals.java import java

        try:
            with translate_spark_errors():
                return _jvm_memory(java(service.session))
        except CtsqlError:
            return {}


def _jvm_memory(jvm: Any) -> JvmMemory:
    bean = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    usages = {"heap": bean.getHeapMemoryUsage(), "nonheap": bean.getNonHeapMemoryUsage()}
    return {
        area: (int(usage.getUsed()), int(usage.getCommitted()), int(usage.getMax()))
        for area, usage in usages.items()
    }
