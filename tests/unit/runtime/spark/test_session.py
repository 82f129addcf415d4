"""A session of the caller's that cannot be used is refused, with what to do."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors import PySparkAttributeError

from ctsql.catalog.errors import EnvironmentProblem
from ctsql.runtime.spark.start.session import DELTA, engine_session


class Remote:
    """As a session of Spark Connect answers, whose packages are not installed here."""

    def __getattr__(self, name: str) -> Any:
        raise PySparkAttributeError(
            errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name}
        )


def _classic(
    settings: Mapping[str, str], *, is_stopped: bool = False, has_jars: bool = True
) -> Any:
    session = Mock(conf=settings)
    session.sparkContext._jsc = None if is_stopped else Mock()
    session._jvm.org.apache.spark.util.Utils.classIsLoadable.return_value = has_jars
    return session


def _refused(session: Any, condition: str = "SPARK_WITHOUT_DELTA") -> tuple[str, str]:
    with pytest.raises(EnvironmentProblem, match=condition) as told:
        engine_session(session)
    return f"{told.value.message} {told.value.detail}", str(told.value.hint)


def test_a_session_of_spark_connect() -> None:
    """It has no JVM in this process."""
    problem, hint = _refused(Remote())
    assert "Spark Connect" in problem
    assert ".master(" in hint


@pytest.mark.parametrize("missing", [*DELTA, "JARs"])
def test_a_session_without_delta(missing: str) -> None:
    """What is missing is named, and the lines to add are said."""
    settings = {name: value for name, value in DELTA.items() if name != missing}
    problem, hint = _refused(_classic(settings, has_jars=missing != "JARs"))
    assert missing in problem
    for name, value in DELTA.items():
        assert f'.config("{name}", "{value}")' in hint


def test_a_session_that_was_stopped() -> None:
    """It is said, before anything is asked of it."""
    problem, hint = _refused(_classic(DELTA, is_stopped=True), "SPARK_ERROR")
    assert "stopped" in problem
    assert "new one" in hint
