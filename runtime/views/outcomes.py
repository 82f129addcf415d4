"""What a way to refresh a view answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ctsql.catalog.declined import Declined
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
    """The difference is staged."""

    strategy: Strategy  # how it was found
    due: Due | None = None  # what was found out on the way; None where it was not


Outcome = StagedDiff | Declined
"""Declined: the changes cannot be followed this time, and what is staged is to be discarded.

Its reason is a code of ``refresh_policy.RECOMPUTE_REASONS``, or of the planner's refusals."""

Way = Callable[[], Outcome] | Declined
"""What stages the difference by a strategy; declined where that is not for this refresh."""


@contextmanager
def translated_failure(item: Item, time: int) -> Iterator[None]:
    """Inside, what the data does to a view's query is VIEW_FAILED at T."""
    try:
        with translate_spark_errors():
            yield
    except (DataError, StatementError) as problem:
        raise view_failed(item, time, problem) from problem
