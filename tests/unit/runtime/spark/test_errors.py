"""What becomes of Spark's exceptions that say what the machine lacks."""

import pyspark
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.spark.failures.errors import translate_spark_errors

TASK = (
    "Job aborted due to stage failure: Task 0 in stage 293.0 failed 1 times, most recent failure:"
    " Lost task 0.0 in stage 293.0 (TID 505) (executor driver): "
)


TRACE = "An error occurred while calling o5.none. Trace:\npy4j.Py4JException: "
MEMORY = [
    "java.lang.OutOfMemoryError: Java heap space",
    "org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to"
    " acquire 65536 bytes of memory, got 0. SQLSTATE: 53200",
    "TaskResultLost (result lost from block manager)",
    "Total size of serialized results of 1 tasks (1.2 GiB) is bigger than"
    " spark.driver.maxResultSize (1024.0 MiB)",
]
JARS = [
    "NoSuchMethodError: 'void org.apache.spark.sql.ParserInterface.$init$(a.B)'",
    "AbstractMethodError: Receiver class a.B does not define an implementation of c",
]
RELEASES = "Apache Spark 4.0.1 to 4.2.0 with Delta 4.4"
CASES: list[tuple[Exception, str, list[str]]] = [
    *(
        (
            PySparkException(f"{TASK}{cause}\n\tat java.base/java.nio.ByteBuffer.allocate"),
            "OUT_OF_MEMORY",
            ["ran out of memory", cause, "export SPARK_DRIVER_MEMORY=8g"],
        )
        for cause in MEMORY
    ),
    # A method or a class that Spark lacks is no lost connection: starting again would not help.
    (
        Py4JError(f"{TRACE}Method none([]) does not exist\n\tat py4j.Gateway\n"),
        "SPARK_VERSION",
        [pyspark.__version__, "Method none([]) does not exist", RELEASES],
    ),
    (
        Py4JError("org.apache.None does not exist in the JVM"),
        "SPARK_VERSION",
        [pyspark.__version__, "org.apache.None does not", RELEASES],
    ),
    # As Delta's JAR for Spark 4.1 on 4.2, or a SPARK_HOME of another release than PySpark's.
    *(
        (PySparkException(f"java.lang.{j}\n\tat a.B"), "SPARK_VERSION", ["SPARK_HOME", j])
        for j in JARS
    ),
    # What py4j raises of a Spark that is gone has no trace of Java.
    *(
        (problem, "SPARK_ERROR", ["connection to Spark was lost"])
        for problem in (
            Py4JNetworkError("Answer from Java side is empty"),
            Py4JError("An error occurred while calling o5.none"),
            ConnectionResetError(),
        )
    ),
    *(
        (problem, "NOT_SUPPORTED", ["nesting as deep"])
        for problem in (
            PySparkException("java.lang.StackOverflowError"),
            PySparkException("[FAILED_TO_PARSE_TOO_COMPLEX] The statement was too complex"),
            RecursionError(),
        )
    ),
]


@pytest.mark.parametrize(("problem", "condition", "words"), CASES)
def test_what_the_machine_lacks(problem: Exception, condition: str, words: list[str]) -> None:
    """The condition says what is wrong; the error keeps Spark's words and says what to do."""
    with pytest.raises(CtsqlError, match=condition) as told, translate_spark_errors():
        raise problem
    assert condition != "OUT_OF_MEMORY" or told.value.sqlstate == "53200"
    said = f"{told.value.message} {told.value.detail} {told.value.hint}"
    assert [word for word in words if word not in said] == []


class _Delta(PySparkException):
    """What Delta throws, with a condition that PySpark does not have."""

    def __init__(self, condition: str, state: str, parameters: dict[str, str]) -> None:
        super().__init__(f"[{condition}] Found nested NullType")
        self.says = condition, state, parameters

    def getCondition(self) -> str:
        return self.says[0]

    def getSqlState(self) -> str:
        return self.says[1]

    def getMessageParameters(self) -> dict[str, str]:
        return self.says[2]


_EMPTY = "DELTA_CANNOT_WRITE_EMPTY_SCHEMA"


@pytest.mark.parametrize(
    ("condition", "state", "parameters", "what"),
    [
        (
            "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
            "22005",
            {"columName": "e", "dataType": "ArrayType"},
            'Column "e"',
        ),
        (f"{_EMPTY}.STRUCT_ALL_VOID_FIELDS", "428GU", {"columnPath": "e"}, 'Column "e"'),
        (f"{_EMPTY}.TABLE_ALL_VOID_COLUMNS", "428GU", {}, "The columns hold"),
    ],
    ids=["nested", "struct", "table"],
)
def test_void_is_no_error_of_rows(
    condition: str, state: str, parameters: dict[str, str], what: str
) -> None:
    """Delta gives some the state of data; no row can be mended."""
    with pytest.raises(CtsqlError, match="INVALID_COLUMN_TYPE") as told, translate_spark_errors():
        raise _Delta(condition, state, parameters)
    assert what in str(told.value.hint)
    assert "CAST(NULL AS STRING)" in str(told.value.hint)


@pytest.mark.parametrize(
    ("condition", "given"),
    [
        (
            "AMBIGUOUS_REFERENCE",
            {"name": "`k`", "referenceNames": "[`__ct_source`.`k`, `o`.`k`]"},
        ),
        (
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            {"objectName": "`o`.`k`", "proposal": "`__ct_source`.`k`, `o`.`v`"},
        ),
    ],
)
def test_aliases_of_ctsql_are_in_no_error(condition: str, given: dict[str, str]) -> None:
    """A relation without a name has an alias of ctsql's; an error shows its columns without it."""
    problem = PySparkException("Spark's text", messageParameters=given)
    problem._errorClass = condition  # the texts of Spark's own conditions are in the JVM
    with pytest.raises(CtsqlError) as told, translate_spark_errors():
        raise problem
    assert told.value.condition in ("AMBIGUOUS_COLUMN", "UNKNOWN_COLUMN")
    assert "k" in f"{told.value.detail}"
    assert "__ct_" not in f"{told.value} {told.value.detail} {told.value.hint}"
