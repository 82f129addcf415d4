"""The results of a refresh strategy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ctsql.catalog.errors import DataError, Declined, StatementError
from ctsql.catalog.items import Item
from ctsql.runtime.log.failures import view_failed
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.views.refresh_policy import Strategy


@dataclass(frozen=True, slots=True)
class Due:
    """The first T after a refresh at which time changes the view; None for none."""

    time: int | None


WayOutcome = Strategy | Declined
"""A strategy: it has staged the difference. Declined: discard what is staged.

The reason is a code of ``refresh_policy.RECOMPUTE_REASONS``, or of the planner's refusals."""

Way = Callable[[], WayOutcome] | Declined
"""Stages the difference by a strategy; Declined if the strategy does not apply."""


@contextmanager
def translated_failure(item: Item, time: int) -> Iterator[None]:
    """Within the block, an error of the query on the data is VIEW_FAILED at T."""
    try:
        with translate_spark_errors():
            yield
    except (DataError, StatementError) as problem:
        raise view_failed(item, time, problem) from problem
