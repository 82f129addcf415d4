"""A warehouse on S3, on Google Cloud Storage, on Azure's storage and on HDFS.

On two of them Delta lets several processes write: Google's refuses to create a file that is there,
HDFS to rename to one. The emulation of Azure has no hierarchical namespace, whose rename does; for
S3 Delta's log store excludes the writers of one process only. What must hold: each batch that was
acknowledged is committed, one that was not is committed whole or not at all, and outputs are what
their inputs make of them.
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
    race_processes,
    warehouse,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

FOR_ONE_PROCESS = ("s3", "abfs")
KINDS = [pytest.param("s3", marks=pytest.mark.s3)] + [
    pytest.param(kind, marks=pytest.mark.stores) for kind in ("gs", "abfs", "hdfs")
]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The scheme."""
    return str(request.param)


@pytest.fixture(scope="module")
def place(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The store."""
    with running(kind, tmp_path_factory.mktemp(kind)) as found:
        yield found


@pytest.fixture
def store(place: Place, tmp_path: Path) -> Iterator[Store]:
    """A warehouse of its own in the store."""
    with warehouse(f"{place.uri}/{tmp_path.name}", tmp_path) as found:
        yield found


def test_small_changes_are_as_on_a_local_disk(store: Store, tmp_path: Path) -> None:
    """This process reads and writes few rows itself, by Spark's connector."""
    compare_with_local_disk(store, tmp_path)


def test_killed_writers(store: Store) -> None:
    """Nothing is lost, nothing doubled."""
    kill_writers(store)


def test_two_writers(store: Store, kind: str) -> None:
    """They race for every version of every log, in two processes where the store allows it."""
    if kind in FOR_ONE_PROCESS:
        store.run("set_up")
        store.run("race", 5)
        check(store)
    else:
        race_processes(store, 5)


def test_doctor(store: Store) -> None:
    """It looks at the store by Spark's connector."""
    examine(store)
