"""What a way to refresh a view answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ctsql.catalog.errors import DataError, StatementError
from ctsql.catalog.items import Item
from ctsql.runtime.log.failures import view_failed
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.views.refresh_policy import Strategy


@dataclass(frozen=True, slots=True)
class Due:
    """The first T after a refresh's at which time changes the view; None for none."""

    time: int | None


@dataclass(frozen=True, slots=True)
class StagedDiff:
    """The difference is staged.

    Attributes:
        strategy: how it was found. due: what was found out on the way; None where it was not.
    """

    strategy: Strategy
    due: Due | None = None


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """This way is not for this view, or not for this refresh; nothing is staged."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """The changes cannot be followed this time; what is staged is to be discarded.

    Attributes:
        code: of ``refresh_policy.WHY``, or of the planner's reasons. detail: which table, say.
    """

    code: str
    detail: str = ""


Outcome = StagedDiff | NotApplicable | Fallback


@contextmanager
def translated_failure(item: Item, time: int) -> Iterator[None]:
    """Inside, what the data does to a view's query is VIEW_FAILED at T."""
    try:
        with translate_spark_errors():
            yield
    except (DataError, StatementError) as problem:
        raise view_failed(item, time, problem) from problem
