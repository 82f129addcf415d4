"""``ctsql run --lineage``: an OpenLineage run for each commit; the extra ``ctsql[openlineage]``.

Where events go is said by OpenLineage's own variables and files, above all ``OPENLINEAGE_URL``.
They are made and sent by a thread of its own from a queue of bounded length: while who takes them
is slow or dead, events are dropped and no tick waits.

Source: the OpenLineage specification, "Run Event", "Naming", "Column Level Lineage Dataset Facet".
"""

import logging
import queue
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ctsql.catalog.errors import CtsqlError, misuse
from ctsql.runtime.monitoring.lineage import Dataset, Field, Lineage, lineage
from ctsql.tell_once import tell_once

try:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import (
        InputDataset,
        Job,
        OutputDataset,
        Run,
        RunEvent,
        RunState,
    )
    from openlineage.client.generated.base import OutputDatasetFacet
    from openlineage.client.generated.column_lineage_dataset import (
        ColumnLineageDatasetFacet,
        Fields,
        InputField,
        Transformation,
    )
    from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
    from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
    from openlineage.client.generated.job_type_job import JobTypeJobFacet
    from openlineage.client.generated.nominal_time_run import NominalTimeRunFacet
    from openlineage.client.generated.output_statistics_output_dataset import (
        OutputStatisticsOutputDatasetFacet,
    )
    from openlineage.client.generated.schema_dataset import (
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )
    from openlineage.client.generated.sql_job import SQLJobFacet
    from openlineage.client.generated.symlinks_dataset import Identifier, SymlinksDatasetFacet
    from openlineage.client.transport.console import ConsoleTransport
except ImportError as problem:
    raise misuse(
        "lineage needs OpenLineage's client, which is not installed",
        f"{problem}. Type: pip install 'ctsql[openlineage]'",
    ) from problem

if TYPE_CHECKING:
    from ctsql.api import Connection
    from ctsql.runtime.service.events import Event

QUEUE_MAX = 10_000
"""Events that wait; what comes beyond is dropped, and told once."""
END_SECONDS = 5.0
"""How long the end of a service waits for the last events to be taken."""
PRODUCER = "https://pypi.org/project/ctsql"
_LOCATION = re.compile(r"(?:([A-Za-z][\w+.-]*):)?(?://([^/]*))?(.*)", re.DOTALL)
"""Scheme, host and path, whatever letters are in the path."""
_BUCKETS = {"s3a": "s3", "s3n": "s3", "s3": "s3", "gs": "gs"}
_RUNS = uuid.UUID("5d1a9bd6-6c55-4d0c-9e0c-6f6b1c6c7a11")
"""Names the runs: processes that share the work give the same id to the same run."""


def place(location: str) -> tuple[str, str]:
    """The namespace and the name of a dataset, as OpenLineage names what is in a store.

    >>> place("file:/data/w/t"), place("s3a://bucket/w/t")
    (('file', '/data/w/t'), ('s3://bucket', 'w/t'))
    >>> place("hdfs://host:9000/w/t"), place("abfss://box@acct.net/w/t")
    (('hdfs://host:9000', '/w/t'), ('abfss://box@acct.net', '/w/t'))

    A folder's name may have what ends a path in an address of the web:

    >>> place("file:/data/w#1/t"), place("s3a://bucket/w?/t")
    (('file', '/data/w#1/t'), ('s3://bucket', 'w?/t'))
    """
    match = _LOCATION.fullmatch(location)
    assert match is not None  # every text fits
    scheme, host, path = match.groups()
    if not host:
        return "file", path
    if scheme in _BUCKETS:
        return f"{_BUCKETS[scheme]}://{host}", path.lstrip("/")
    return f"{scheme}://{host}", path


def run_id(object_id: str, t: int) -> str:
    """The id of what one object did at one T."""
    return str(uuid.uuid5(_RUNS, f"{object_id} {t}"))


class LineageEvents:
    """Gives the runs of one service to a client of OpenLineage's.

    Args:
        warehouse: the namespace of jobs. describe: what an output is made of, by its name; it is
            called in the thread that sends. tell: is given what does not work, once of each kind.
        client: who sends.
    """

    def __init__(
        self,
        warehouse: str,
        describe: Callable[[str], Lineage | None],
        client: OpenLineageClient,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._warehouse = warehouse
        self._describe = describe
        self._tell_once = tell_once("lineage", tell)
        self._client = client
        self._waiting: queue.Queue[Event | None] = queue.Queue(QUEUE_MAX)

    def note(self, event: "Event") -> None:
        """Take an event of the service; never waits."""
        is_failure = event.condition is not None and event.name and event.time is not None
        if event.refresh is None and not is_failure:
            return
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._tell_once("full", "events are dropped, as nobody takes them fast enough")

    @contextmanager
    def opened(self) -> Iterator["LineageEvents"]:
        """Inside, what is noted is sent; at the end the last events are, if that is quick."""
        logger = logging.getLogger("openlineage")
        quiet, logger.propagate = logger.propagate, False  # what fails is told by us
        sender = threading.Thread(target=self._send_all, name="ctsql lineage", daemon=True)
        sender.start()
        try:
            yield self
        finally:
            with suppress(queue.Full):  # nothing is taken any more; the process ends the thread
                self._waiting.put(None, timeout=END_SECONDS)
            sender.join(END_SECONDS)
            logger.propagate = quiet

    def _send_all(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                for run_event in self._run_events(event):
                    self._client.emit(run_event)
            except CtsqlError as problem:
                self._tell_once(problem.condition, f"{problem.condition}: {problem.message}")
            except (OSError, RuntimeError, ValueError) as problem:
                reason = f"{type(problem).__name__}: {problem}"
                self._tell_once("refused", f"an event was not taken: {reason}")
        self._client.close(END_SECONDS)

    def _run_events(self, event: "Event") -> Iterator[RunEvent]:
        """The begin and the end of a run; none of an output that is gone."""
        refresh = event.refresh
        name = event.name if refresh is None else refresh.output
        t = event.time if refresh is None else refresh.t
        origin = None if name is None or t is None else self._describe(name)
        if origin is None or t is None:
            return
        end = _instant(event.at) if refresh is None else refresh.at
        start = end - timedelta(seconds=event.seconds or 0.0)
        yield self._event(origin, t, RunState.START, start)
        if refresh is None:
            reason = f"{event.condition}: {event.message}"
            facets = {"errorMessage": ErrorMessageRunFacet(reason, "SQL")}
            yield self._event(origin, t, RunState.FAIL, end, facets)
            return
        statistics: dict[str, OutputDatasetFacet] = {
            "outputStatistics": OutputStatisticsOutputDatasetFacet(
                rowCount=refresh.rows_inserted,
                size=refresh.bytes_written,
                fileCount=refresh.files_written,
            )
        }
        facet = DatasetVersionDatasetFacet(str(refresh.version))
        output = _dataset_facets(origin.output, self._warehouse) | {"version": facet}
        output |= {"columnLineage": _columns(origin)}
        namespace, path = place(origin.output.location)
        outputs = [OutputDataset(namespace, path, facets=output, outputFacets=statistics)]
        yield self._event(origin, t, RunState.COMPLETE, end, outputs=outputs)

    def _event(
        self,
        origin: Lineage,
        t: int,
        state: RunState,
        at: datetime,
        facets: dict[str, Any] | None = None,
        outputs: list[OutputDataset] | None = None,
    ) -> RunEvent:
        moment = _instant(t).isoformat()
        run = Run(
            run_id(origin.id, t), {"nominalTime": NominalTimeRunFacet(moment), **(facets or {})}
        )
        kind = JobTypeJobFacet(processingType="STREAMING", integration="CTSQL", jobType=origin.kind)
        job = Job(
            self._warehouse,
            origin.object,
            {"sql": SQLJobFacet(origin.definition, "spark"), "jobType": kind},
        )
        inputs = [
            InputDataset(*place(i.location), facets=_dataset_facets(i, self._warehouse))
            for i in origin.inputs
        ]
        return RunEvent(
            eventTime=at.isoformat(),
            producer=f"{PRODUCER}/{version('ctsql')}",
            run=run,
            job=job,
            eventType=state,
            inputs=inputs,
            outputs=outputs or [OutputDataset(*place(origin.output.location))],
        )


def lineage_of(connection: "Connection", tell: Callable[[str], None]) -> LineageEvents:
    """The events of a connection's service, for the client that OpenLineage's configuration says.

    Raises:
        INVALID_USAGE: it says none.
    """
    from ctsql.side_reader import SideReader

    client = OpenLineageClient()
    if client.transport.kind == ConsoleTransport.kind and not client.config.transport:
        detail = "Set OPENLINEAGE_URL, or write a file openlineage.yml."
        raise misuse("nothing says where lineage goes", detail)
    reader = SideReader(connection)
    return LineageEvents(
        connection.warehouse,
        lambda name: reader(lambda logs: lineage(logs, name)),
        client,
        tell,
    )


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _dataset_facets(dataset: Dataset, warehouse: str) -> dict[str, Any]:
    fields = [SchemaDatasetFacetFields(name=name, type=kind) for name, kind in dataset.columns]
    identifier = Identifier(namespace=warehouse, name=dataset.name, type="TABLE")
    return {
        "schema": SchemaDatasetFacet(fields=fields),
        "symlinks": SymlinksDatasetFacet(identifiers=[identifier]),
    }


def _columns(origin: Lineage) -> ColumnLineageDatasetFacet:
    fields = {
        column: Fields(inputFields=[_input(f, "DIRECT") for f in sources])
        for column, sources in origin.fields.items()
    }
    return ColumnLineageDatasetFacet(
        fields=fields, dataset=[_input(f, "INDIRECT") for f in origin.reads]
    )


def _input(field: Field, kind: str) -> InputField:
    namespace, name = place(field.dataset)
    how = Transformation(type=kind)
    return InputField(namespace=namespace, name=name, field=field.column, transformations=[how])
