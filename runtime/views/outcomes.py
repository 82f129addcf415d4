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


@dataclass(frozen=True, slots=True)
class StagedDiff:
    """The difference is staged."""

    strategy: Strategy  # how it was found
    due: Due | None = None  # known as a by-product; None if not computed


WayOutcome = StagedDiff | Declined
"""Declined: the changes cannot be followed this time; discard what is staged.

Its reason is a code of ``refresh_policy.RECOMPUTE_REASONS``, or of the planner's refusals."""

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
