"""Tables that messages of a Kafka topic come into: each message once, whatever crashes.

    ask    the brokers: which offsets are there?                            no Spark job
    read   those from the recorded offsets on, by Spark, into staged files
    commit the rows, and the offsets that come next                         a commit of the table

The offsets are domain metadata of the table itself, so that they live as long as its rows.

[rows-with-offsets] rows and offsets are in one commit. A kill before it leaves files that nobody
    sees, and a kill after it leaves nothing to be done.
[poll-once] a commit moves the upper of the write handle, which counts the polls, from the count
    that the offsets were read with. Of two processes that read the same messages Delta lets one
    commit; the other drops its files, and reads the offsets again. The same holds where the table
    has constraints that ctsql keeps: then the commit is that of a transaction, with rows that are
    set aside.
[gap-is-error] what is gone from the topic before it came in is an error, never a gap (unless asked
    for).

Tests: tests/unit/runtime/warehouse/test_kafka_offsets.py, tests/kafka.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column as SparkColumn, DataFrame, functions as F

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import Item, KafkaSource
from ctsql.catalog.names import backtick, fold, table_at
from ctsql.catalog.reserved_columns import PREFIX
from ctsql.catalog.schemas import Column, plain_type
from ctsql.catalog.spans import Source, Span
from ctsql.planner.lowering.store_assignment import as_stored, may_store
from ctsql.runtime.delta.locks import commit_lock
from ctsql.runtime.delta.table import DeltaTable
from ctsql.runtime.log import fault_points as faults
from ctsql.runtime.log.actions import Commit
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.log.table_metadata import keeps_any
from ctsql.runtime.log.uppers import commits_to
from ctsql.runtime.log.write_handle import Committed, Disturbed, Output, disturbance_error
from ctsql.runtime.spark.errors import RECORD_CHARS_MAX, translate_spark_errors
from ctsql.runtime.spark.kafka import KafkaClient
from ctsql.runtime.warehouse.kafka_offsets import (
    Offsets,
    Progress,
    Topic,
    first_offsets,
    next_offsets,
    next_ranges,
)
from ctsql.runtime.warehouse.multi_table_commit import (
    AppendKept,
    WriterProgress,
    alone,
)
from ctsql.runtime.warehouse.warehouse import Warehouse

DOMAIN = "ctsql.kafka"
_FEATURE = "domainMetadata"
_VALUE, _UNREADABLE = f"{PREFIX}value", f"{PREFIX}unreadable"
_TYPES = {"key": "binary", "partition": "int", "offset": "bigint", "timestamp": "timestamp"}
_ERROR = "error"


class WatchedTopics:
    """The tables of a warehouse that messages come into."""

    def __init__(
        self, warehouse: Warehouse, complete: Callable[[], object], append_kept: AppendKept
    ) -> None:
        """``complete`` completes the transaction of a process that was killed."""
        self._warehouse = warehouse
        self._complete = complete
        self._append_kept = append_kept
        self._clients: dict[str, KafkaClient] = {}

    def has_new(self, item: Item) -> bool:
        """Whether there is something to take in; starts no Spark job."""
        progress, topic, offsets = self._look(item)
        return progress is None or bool(next_ranges(offsets, topic.latest, None))

    def take_in(self, item: Item) -> list[Commit]:
        """Let the messages in that are there now; returns the commits of this process.

        That is one, or one for each ``records_max`` messages.

        Raises:
            DATA_ERROR: a value cannot be read; nothing of its poll comes in. CONSTRAINT_VIOLATED:
                nor does it where a message breaks a constraint of the table.
            KAFKA_UNAVAILABLE, KAFKA_OFFSETS_LOST, KAFKA_TOPIC_REPLACED, KAFKA_START_INVALID,
            SPARK_PACKAGE_MISSING, ENVIRONMENT_VARIABLE_MISSING.
        """
        commits: list[Commit] = []
        progress, topic, offsets = self._look(item)
        until = topic.latest
        while True:
            ranges = next_ranges(offsets, until, _source(item).records_max)
            if progress is not None and not ranges:
                return commits
            polls = 0 if progress is None else progress.polls
            after = {**offsets, **{p: upper for p, (_, upper) in ranges.items()}}
            new = Progress(polls=polls + 1, topic_id=topic.id, offsets=after)
            rows = self._rows(item, ranges) if ranges else None
            commits += self._commit(item, rows, new)
            progress, topic, offsets = self._look(item)

    def _look(self, item: Item) -> tuple[Progress | None, Topic, Offsets]:
        """How far the table is, what the brokers have, and where the next poll begins."""
        source = _source(item)
        text = self._table(item).domains()[1].get(DOMAIN)
        progress = None if text is None else Progress.from_json(text)
        topic_id, earliest, latest = self._ask(item)
        topic = Topic(source.topic, topic_id, earliest, latest)
        if progress is None:
            return None, topic, first_offsets(source.start, topic)
        name, may_lose = str(item.name), source.may_lose
        return progress, topic, next_offsets(progress, topic, name, may_lose=may_lose)

    def _ask(self, item: Item) -> tuple[str, dict[int, int], dict[int, int]]:
        client = self._client(item)
        try:
            return client.ask()
        except CtsqlError:
            # The next one reads the options anew: a secret may be another by then.
            self._clients.pop(item.id).close()
            raise

    def _client(self, item: Item) -> KafkaClient:
        for item_id in self._clients.keys() - self._warehouse.catalog.items.keys():
            self._clients.pop(item_id).close()  # its table was dropped
        client = self._clients.get(item.id)
        if client is None:
            session = self._warehouse.gateway.session
            client = self._clients[item.id] = KafkaClient(session, _source(item))
        return client

    def _table(self, item: Item) -> DeltaTable:
        return self._warehouse.relations.table(item)

    def _rows(self, item: Item, ranges: dict[int, tuple[int, int]]) -> DataFrame:
        columns = self._warehouse.relations.columns_now(item)
        return rows_of_messages(self._client(item).read(ranges), _source(item), columns)

    def _commit(self, item: Item, rows: DataFrame | None, new: Progress) -> list[Commit]:
        """Commit rows and offsets, unless another process was first; returns the commit."""
        table, lower = self._table(item), new.polls - 1
        if not table.has_feature(_FEATURE):
            with commit_lock(table.location), translate_spark_errors():
                self._warehouse.gateway.session.sql(
                    f"ALTER TABLE {table_at(table.location)} "
                    f"SET TBLPROPERTIES ('delta.feature.{_FEATURE}' = 'supported')"
                )
        span = Source(_source(item).topic, f"<topic of {item.name}>").whole()
        if rows is not None and keeps_any(table.configuration()):
            return self._commit_kept(item, rows, new, span)
        output = Output(table, _app(item), shared=True)
        batch = output.batch(lower, new.polls)
        batch.domains[DOMAIN] = new.to_json()
        with discard_on_error([batch]):
            if rows is not None:
                with translate_spark_errors(None, span):
                    batch.at(lower).stage(rows)
            with alone(self._warehouse.timeline, item, self._complete):
                if keeps_any(table.configuration()):  # by now: look again
                    batch.discard()
                    return []
                outcome = output.compare_and_append([batch], expected=lower, new=new.polls)
        if isinstance(outcome, Disturbed):
            raise disturbance_error(f"{item.name}: rows that are only added")
        if not isinstance(outcome, Committed):
            return []
        faults.point("source_committed")
        return [table.commit_at(outcome.version)]

    def _commit_kept(self, item: Item, rows: DataFrame, new: Progress, span: Span) -> list[Commit]:
        """Commit rows as far as the table's constraints let them, and offsets."""
        table, app = self._table(item), _app(item)
        domains = {DOMAIN: new.to_json()}
        timeline, catalog = self._warehouse.timeline, self._warehouse.relations.load_stored
        with alone(timeline, item, self._complete, catalog):
            if (table.application_version(app) or 0) != new.polls - 1:
                return []  # another process was first
            before = table.version()
            progress = WriterProgress(
                app=app, expected=new.polls - 1, upper=new.polls, domains=domains
            )
            self._append_kept(item, rows, progress, span)
        faults.point("source_committed")
        return commits_to(table, app, new.polls, after=before)


def check_topic_columns(source: KafkaSource, columns: Sequence[Column]) -> None:
    """Refuse columns that messages cannot fill.

    Raises:
        UNKNOWN_COLUMN: INCLUDE names none of them. COLUMN_COUNT_MISMATCH: of text or bytes there is
            one value. TYPE_MISMATCH: a column is of a type that does not take what it is for.
    """
    by_name = {fold(c.name): c for c in columns}
    included_parts = {fold(column): part for part, column in source.included}
    for part, name in source.included:
        if fold(name) not in by_name:
            detail = f"INCLUDE {part.upper()} is to fill it."
            hint = f"Add it to the columns, or type: INCLUDE {part.upper()} AS column"
            raise error("UNKNOWN_COLUMN", column=name, detail=detail, hint=hint)
    values = [c for c in columns if fold(c.name) not in included_parts]
    if source.format != "json" and len(values) > 1:
        names = ", ".join(c.name for c in values)
        message = f"a message has one value, {len(values)} columns are to be filled"
        detail = f"They are {names}. FORMAT json has several columns."
        raise error("COLUMN_COUNT_MISMATCH", message=message, detail=detail)
    for column in columns:
        part = included_parts.get(fold(column.name), "")
        kind = _TYPES.get(part, "string")
        if part == "key" and plain_type(column.type).lower() != "binary":
            kind = "string"
        if not part:
            if source.format == "json":
                continue
            kind = "string" if source.format == "text" else "binary"
        if not may_store(kind, column.type):
            part_name = part.upper() or "the value"
            message = f'{part_name} is {kind}: it does not go into "{column.name}" {column.type}'
            raise error("TYPE_MISMATCH", message=message)


def rows_of_messages(
    messages: DataFrame, source: KafkaSource, columns: Sequence[Column]
) -> DataFrame:
    """Messages as rows of the table.

    A JSON value that cannot be read as the columns' types is an error that names its offset, or,
    with INCLUDE ERROR, a row with its text and nothing else of the value.
    """
    included_parts = {fold(column): part for part, column in source.included}
    values = [c for c in columns if fold(c.name) not in included_parts]
    text = F.col("value").cast("string")
    if source.format == "json" and values:
        fields = ", ".join(f"{backtick(c.name)}: {plain_type(c.type)}" for c in values)
        # Within an object: at the top Spark would leave out what stands behind a value.
        read = F.from_json(
            F.concat(F.lit(f'{{"{_VALUE}":'), text, F.lit("}")),
            f"{_VALUE} STRUCT<{fields}>, {_UNREADABLE} STRING",
            {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNREADABLE},
        )
        messages = messages.select("*", read.alias(_VALUE))
        is_read = (
            F.col(f"{_VALUE}.{_VALUE}").isNotNull() & F.col(f"{_VALUE}.{_UNREADABLE}").isNull()
        )
        is_bad = F.col("value").isNotNull() & ~is_read
        bad = (
            F.lit(None)
            if _ERROR in dict(source.included)
            else F.raise_error(_error_message(source))
        )
        whole = F.when(is_bad, bad).otherwise(F.col(f"{_VALUE}.{_VALUE}"))
        messages = messages.select(
            *messages.columns[:-1], whole.alias(_VALUE), F.when(is_bad, text).alias(_ERROR)
        )
    else:
        messages = messages.withColumn(_ERROR, F.lit(None).cast("string"))
    return messages.select(
        *(
            as_stored(_part(included_parts.get(fold(c.name)), c, source), c).alias(c.name)
            for c in columns
        )
    )


def _part(part: str | None, column: Column, source: KafkaSource) -> SparkColumn:
    """What fills a column."""
    if part is None and source.format == "json":
        return F.col(f"{_VALUE}.{backtick(column.name)}")
    kafka_column = F.col(part or "value")
    if part is None:
        return kafka_column.cast("string") if source.format == "text" else kafka_column
    is_text = part == "key" and plain_type(column.type).lower() != "binary"
    return kafka_column.cast("string") if is_text else kafka_column


def _error_message(source: KafkaSource) -> SparkColumn:
    return F.concat(
        F.lit(f"the value of topic {source.topic}, partition "),
        F.col("partition").cast("string"),
        F.lit(", offset "),
        F.col("offset").cast("string"),
        F.lit(", is no JSON object with these columns: "),
        F.substring(F.col("value").cast("string"), 1, RECORD_CHARS_MAX),
    )


def _app(item: Item) -> str:
    return f"{item.app}:kafka"


def _source(item: Item) -> KafkaSource:
    assert isinstance(item.feed, KafkaSource)  # callers ask for tables with a topic
    return item.feed
