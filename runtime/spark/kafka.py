"""Asks Kafka's brokers for the offsets of a topic, and has Spark read ranges of them.

Spark's connector has Kafka's own client among its JARs, so nothing else is needed.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import CtsqlError, error
from ctsql.catalog.items import KafkaSource
from ctsql.runtime.spark.errors import translate_spark_errors
from ctsql.runtime.spark.messages import thrown_by

ANSWER_MS_MAX = 15_000
_ISOLATION = "kafka.isolation.level"
_COMMITTED = "read_committed"
_ANSWERS = {
    "kafka.request.timeout.ms": str(ANSWER_MS_MAX // 3),
    "kafka.default.api.timeout.ms": str(ANSWER_MS_MAX),
}


class KafkaClient:
    """The brokers of one topic."""

    def __init__(self, session: SparkSession, source: KafkaSource) -> None:
        """Ask nothing yet.

        Raises:
            SPARK_PACKAGE_MISSING: Spark has no connector. ENVIRONMENT_VARIABLE_MISSING.
            KAFKA_UNAVAILABLE: the options are wrong.
        """
        self._session = session
        self._source = source
        self._options = _options(source)
        self._jvm: Any = session._jvm
        assert self._jvm is not None  # engine_session refuses Spark Connect
        with translate_spark_errors():
            self.read({0: (0, 0)})  # nothing is read: Spark says whether it has the connector
        properties = self._jvm.java.util.Properties()
        for name, value in (_ANSWERS | self._options).items():
            properties.setProperty(name.removeprefix("kafka."), value)
        try:
            self._admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
        except Py4JJavaError as problem:
            raise self._unavailable(problem) from problem

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def ask(self) -> tuple[str, dict[int, int], dict[int, int]]:
        """The topic's id, and of each partition the first offset kept and the next one written.

        Messages of transactions that are still open are not counted, unless Kafka's option
        ``isolation.level`` says so.

        Raises:
            KAFKA_UNAVAILABLE: no broker answers, or there is no such topic.
        """
        with translate_spark_errors():
            try:
                names = self._jvm.java.util.List.of(self._source.topic)
                topics = self._admin.describeTopics(names).allTopicNames().get()
                topic = topics.get(self._source.topic)
                partitions = [p.partition() for p in topic.partitions()]
                spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
                # Those at the end are asked first: retention may go on meanwhile.
                latest = self._offsets(partitions, spec.latest())
                earliest = self._offsets(partitions, spec.earliest())
                return str(topic.topicId().toString()), earliest, latest
            except Py4JJavaError as problem:
                raise self._unavailable(problem) from problem

    def _offsets(self, partitions: list[int], spec: Any) -> dict[int, int]:
        kafka = self._jvm.org.apache.kafka
        request = self._jvm.java.util.HashMap()
        keys = {p: kafka.common.TopicPartition(self._source.topic, p) for p in partitions}
        for key in keys.values():
            request.put(key, spec)
        level = self._options[_ISOLATION].upper()
        options = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.valueOf(level))
        offsets = self._admin.listOffsets(request, options).all().get()
        return {p: offsets.get(key).offset() for p, key in keys.items()}

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> DataFrame:
        """The messages of ranges of offsets, as Spark's connector gives them."""
        topic = self._source.topic
        offsets = {
            "assign": {topic: sorted(ranges)},
            "startingOffsets": {topic: {p: lower for p, (lower, _) in ranges.items()}},
            "endingOffsets": {topic: {p: upper for p, (_, upper) in ranges.items()}},
        }
        reader = self._session.read.format("kafka").options(**self._options)
        reader = reader.options(**{name: json.dumps(value) for name, value in offsets.items()})
        return reader.option("failOnDataLoss", str(not self._source.may_lose).lower()).load()

    def _unavailable(self, problem: Py4JJavaError) -> CtsqlError:
        chain = [t for t in thrown_by(problem) if t.text]
        return error(
            "KAFKA_UNAVAILABLE",
            topic=self._source.topic,
            brokers=self._source.brokers,
            detail=f"{chain[-1].text.splitlines()[0].rstrip('.')}." if chain else "",
        )


def _options(source: KafkaSource) -> dict[str, str]:
    """Kafka's options, secrets included: they are read anew for each client, and kept nowhere."""
    options = {"kafka.bootstrap.servers": source.brokers, _ISOLATION: _COMMITTED}
    options |= dict(source.options)
    for option, variable in source.secrets:
        if variable not in os.environ:
            raise error("ENVIRONMENT_VARIABLE_MISSING", variable=variable, option=option)
        options[option] = os.environ[variable]
    return options
