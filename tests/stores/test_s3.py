"""A warehouse on S3: an emulation on this machine, Spark's own connector, and Delta's rules for it.

Delta's log store for S3 excludes the writers of one process only, so one process writes at a time
here. What must hold: each batch that was acknowledged is in, one that was not is in whole or not
at all, and outputs are what their inputs make of them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.servers import Place, running
from tests.stores.warehouse import (
    Store,
    check,
    compare_with_local_disk,
    examine,
    kill_writers,
    warehouse,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.s3, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The emulation."""
    with running("s3", tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture
def store(place: Place, tmp_path: Path) -> Iterator[Store]:
    """A warehouse of its own in the bucket."""
    with warehouse(f"{place.uri}/{tmp_path.name}", tmp_path) as found:
        yield found


def test_killed_writers(store: Store) -> None:
    """Nothing is lost, nothing doubled."""
    kill_writers(store)


def test_two_writers_in_one_process(store: Store) -> None:
    """They race for every version of every log."""
    store.run("set_up")
    store.run("race", 5)
    check(store)


def test_small_changes_are_as_on_a_local_disk(store: Store, tmp_path: Path) -> None:
    """This process reads and writes few rows itself, by Spark's connector."""
    compare_with_local_disk(store, tmp_path)


def test_doctor(store: Store) -> None:
    """It looks at the store by Spark's connector."""
    examine(store)
