"""Rows that go to Python and back are what they were, of every type, and cost no Spark job."""

import pytest

from ctsql.api import Connection
from ctsql.catalog.errors import Declined
from ctsql.runtime.rows.collect import all_as_arrow, at_hand, collect_bounded
from ctsql.runtime.rows.row_set import LocalRows
from ctsql.runtime.spark.job_metrics import Meter

EVERY_TYPE = """
    SELECT id, CAST(id AS STRING) AS text, '' AS empty, CAST(id AS DECIMAL(38, 10)) AS long,
        DOUBLE('NaN') AS nan, -0.0D AS zero, FLOAT(1.5) AS single, id % 2 = 0 AS odd,
        DATE'1582-10-08' AS day, TIMESTAMP'1582-10-08 01:02:03.000004' AS instant,
        TIMESTAMP_NTZ'0001-01-01 00:00:00' AS local, MAP(id, 'x', id + 1, NULL) AS map,
        ARRAY(id, NULL) AS list, NAMED_STRUCT('a b', id, 'y', NULL) AS `struct.of two`,
        PARSE_JSON('[1, null]') AS variant, PARSE_JSON(IF(id % 2 = 0, '[]', NULL)) AS missing,
        INTERVAL '3 04:05:06.7' DAY TO SECOND AS span,
        X'00FF' AS bytes, NULL AS nothing
    FROM range({rows})
"""


@pytest.mark.parametrize("rows", [0, 1, 7, 5_000])
def test_there_and_back(con: Connection, rows: int) -> None:
    """Arrow has what ``toArrow`` gives, and Spark sees the same rows in what comes back."""
    held = collect_bounded(con.spark.sql(EVERY_TYPE.format(rows=rows)))
    assert not isinstance(held, Declined)
    meter = Meter(con.spark)
    arrow = LocalRows.of(held).arrow
    back = at_hand(con.spark, arrow, held.schema)
    assert meter.work().jobs == 0
    assert arrow.num_rows == rows
    # As texts, in which NaN is NaN.
    assert repr(arrow.to_pylist()) == repr(all_as_arrow(held).to_pylist())
    known = arrow.drop_columns("missing")  # PySpark cannot convert a NULL of a VARIANT
    assert repr(known.to_pylist()) == repr(held.drop("missing").toArrow().to_pylist())
    assert back.schema.simpleString() == held.schema.simpleString()
    text = "to_json(struct(*)) AS text"
    assert back.selectExpr(text).collect() == held.selectExpr(text).collect()
