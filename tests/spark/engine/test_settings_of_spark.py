"""Rows do not depend on what a process has set of Spark."""

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import NotSupported
from ctsql.runtime.spark.internals import sessions as class_names
from tests.helpers.opened import check_rows

OTHER = {
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.databricks.delta.stats.collect": "false",
    "spark.databricks.delta.properties.defaults.appendOnly": "true",
    "spark.sql.legacy.sessionInitWithConfigDefaults": "true",  # of the whole process: it stays
}


@pytest.fixture
def given(con: Connection) -> Iterator[SparkSession]:
    """A session of a process in which spark-defaults.conf has other settings."""
    defaults: Any = con.spark._jsparkSession.sharedState().conf()  # new sessions begin with it
    for name, value in OTHER.items():
        defaults.set(name, value)
    yield con.spark.newSession()
    for name in OTHER:
        defaults.remove(name)


def test_the_session_of_a_caller_changes_no_row(con: Connection, given: SparkSession) -> None:
    """A task and a view hold the same rows, whichever process computed them."""
    con.execute(
        "CREATE TABLE t (k INT, n INT, s STRING); INSERT INTO t VALUES (1, NULL, 'x');"
        "CREATE MATERIALIZED VIEW v WITH (REFRESH POLICY = incremental) AS"
        " SELECT k, to_json(struct(k, N)) AS j FROM t;"
        "CREATE CONTINUAL TASK c ON INPUT t AS"
        " (INSERT INTO c SELECT k, to_json(struct(k, N)) AS j FROM t WHERE s = 'x');"
        "SELECT * FROM v; SELECT * FROM c"
    )
    assert {name: given.conf.get(name) for name in OTHER} == OTHER
    with open_connection(con.warehouse, spark=given) as other:
        other.execute("INSERT INTO t VALUES (2, NULL, 'x')")
        wanted = [(1, '{"k":1}'), (2, '{"k":2}')]
        check_rows(other, "SELECT * FROM v", *wanted)
        check_rows(other, "SELECT * FROM c", *wanted)
        other.execute("CREATE MATERIALIZED VIEW last AS SELECT max(k) AS k FROM t")
        other.execute("INSERT INTO t VALUES (3, NULL, 'y')")
        check_rows(other, "SELECT * FROM last", (3,))
        with pytest.raises(NotSupported, match="ignoreNullFields"):
            other.execute("SET spark.sql.jsonGenerator.ignoreNullFields = false")
    check_rows(con, "VERIFY MATERIALIZED VIEW v")


@pytest.mark.core
def test_this_release_has_the_classes_of_settings(con: Connection) -> None:
    """Spark ignores an excluded rule that it does not have, and another class fails late."""
    jvm: Any = con.spark._jvm
    load = jvm.org.apache.spark.util.Utils.classForName
    names = {v for k, v in vars(class_names).items() if k.isupper() and not k.startswith("_")}
    assert len(names) == 3
    for name in names:
        load(name, False, True)
    with pytest.raises(Py4JJavaError, match="ClassNotFound"):
        load(f"{class_names.MERGE_SUBQUERIES}2", False, True)
