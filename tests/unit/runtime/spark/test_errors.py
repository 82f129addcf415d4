"""What becomes of Spark's exceptions that say what the machine lacks."""

import pytest
from pyspark.errors import PySparkException

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.spark.errors import translate_spark_errors

TASK = (
    "Job aborted due to stage failure: Task 0 in stage 293.0 failed 1 times, most recent failure:"
    " Lost task 0.0 in stage 293.0 (TID 505) (executor driver): "
)


@pytest.mark.parametrize(
    "cause",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to"
        " acquire 65536 bytes of memory, got 0. SQLSTATE: 53200",
    ],
)
def test_memory_that_is_used_up(cause: str) -> None:
    """It says how to give more, and keeps what Spark said."""
    with pytest.raises(CtsqlError) as told, translate_spark_errors():
        raise PySparkException(f"{TASK}{cause}\n\tat java.base/java.nio.ByteBuffer.allocate")
    assert told.value.condition == "SPARK_ERROR"
    assert "memory was used up" in told.value.message
    assert cause in told.value.detail
    assert "export SPARK_DRIVER_MEMORY=8g" in told.value.hint
