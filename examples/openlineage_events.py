"""Sends a run to OpenLineage for each commit and failure of a task or view.

    OPENLINEAGE_URL=http://marquez:5000 ctsql run --on-event examples.openlineage_events:send

The variables and files of OpenLineage's client name the receiver. Another thread sends the runs, so
no commit waits for the network.
"""

import queue
import sys
import threading
import uuid
from datetime import UTC, datetime

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.nominal_time_run import NominalTimeRunFacet

from ctsql.runtime.service.events import Event

NAMESPACE = "ctsql"
waiting: "queue.Queue[RunEvent]" = queue.Queue(10_000)


def send(event: Event) -> None:
    """Queue an event of the service; if 10,000 are queued already, drop it."""
    if event.time is not None and (event.refresh or (event.condition and event.name)):
        try:
            waiting.put_nowait(run_event(event, event.time))
        except queue.Full:
            sys.stderr.write("OpenLineage: an event was dropped\n")


def run_event(event: Event, time: int) -> RunEvent:
    """The run of a task or view at one T: what it read and wrote, or why it failed."""
    job = str(event.refresh.object if event.refresh else event.name)
    facets = {"nominalTime": NominalTimeRunFacet(_instant(time))}
    if not event.refresh:
        reason = f"{event.condition}: {event.message}"
        facets |= {"errorMessage": ErrorMessageRunFacet(reason, "SQL")}  # type: ignore[dict-item]
    changed = event.refresh.changed if event.refresh else ()
    return RunEvent(
        eventTime=_instant(event.at),
        eventType=RunState.COMPLETE if event.refresh else RunState.FAIL,
        run=Run(str(uuid.uuid5(uuid.NAMESPACE_URL, f"{NAMESPACE}/{job}/{time}")), facets),
        job=Job(NAMESPACE, job),
        inputs=[InputDataset(NAMESPACE, name) for name in changed],
        outputs=[OutputDataset(NAMESPACE, event.refresh.output)] if event.refresh else [],
        producer="urn:ctsql",
    )


def _instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def _send_all() -> None:
    client = OpenLineageClient()
    while True:
        client.emit(waiting.get())
        waiting.task_done()


threading.Thread(target=_send_all, daemon=True).start()
