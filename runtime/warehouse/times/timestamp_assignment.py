"""The T of each commit of a source. Pure.

[times-increase] Ts strictly increase, and no T is before its commit.
[versions-in-order] the versions of one source are bound in their order.
[one-T-per-transaction] the commits of one transaction get one T; while one of them is missing none
    is bound, nor any later commit of their tables.
[in-order-of-timestamp] other commits are ordered by in-commit timestamp, then name, then version,
    and each gets its own T; with a tick interval, commits of the same interval share one.

Source: our choice, after the "definite collections" of differential dataflow.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctsql.runtime.log.actions import Commit

TRANSACTION = "transaction"
"""In a commit's metadata: the id of the transaction that it is a part of."""
UNDOES = "undoes"
"""In a commit's metadata: the id of the transaction whose part in this table it takes back."""


@dataclass(frozen=True, slots=True)
class Binding:
    """From `time` on (inclusive), the source's contents are those of `version`."""

    time: int
    source: str
    version: int


@dataclass(frozen=True, slots=True)
class UnboundCommit:
    """A commit of a source that has no T yet; ``group`` is the id of its transaction."""

    time_ms: int
    name: str
    version: int
    source: str
    group: str | None = None


Waiting = Mapping[str, frozenset[str]]
"""The transactions that are being committed: id to the sources that it changes."""
CommitGroup = list[UnboundCommit]


def assign(
    candidates: Sequence[UnboundCommit],
    last: int,
    *,
    waiting: Waiting | None = None,
    tick_ms: int = 0,
) -> list[Binding]:
    """Assign a T to every commit; at most one binding of a source for each T.

    Args:
        candidates: commits of all sources, in any order. last: the newest T. waiting: transactions
            whose commits may not all be visible yet. tick_ms: 0 for no ticks.
    """
    bindings: list[Binding] = []
    for steps in _ticks(_steps(candidates, waiting or {}), tick_ms):
        commits = [c for step in steps for c in step]
        last = max(last + 1, *(c.time_ms for c in commits))
        versions = {c.source: c.version for c in commits}  # if a source has several, the newest
        bindings += [Binding(last, source, version) for source, version in versions.items()]
    return bindings


def _key(c: UnboundCommit) -> tuple[int, str, int]:
    return c.time_ms, c.name, c.version


def _steps(candidates: Sequence[UnboundCommit], waiting: Waiting) -> Iterator[CommitGroup]:
    """The commits in their order, those of one transaction together."""
    chains: dict[str, deque[UnboundCommit]] = {}
    parts: dict[str, set[str]] = {group: set(sources) for group, sources in waiting.items()}
    for c in sorted(candidates, key=_key):
        chains.setdefault(c.source, deque()).append(c)
        if c.group is not None:
            parts.setdefault(c.group, set()).add(c.source)
    while chains:
        step = _next(chains, parts)
        if not step:
            return  # the rest waits for a missing commit
        yield step
        for c in step:
            chains[c.source].popleft()
            if not chains[c.source]:
                del chains[c.source]


def _next(chains: Mapping[str, deque[UnboundCommit]], parts: Mapping[str, set[str]]) -> CommitGroup:
    """The first commit that may be bound, with those that must be bound with it."""
    for first in sorted((chain[0] for chain in chains.values()), key=_key):
        if first.group is None:
            return [first]
        heads = [chains[s][0] for s in sorted(parts[first.group]) if s in chains]
        together = [c for c in heads if c.group == first.group]
        if len(together) == len(parts[first.group]):
            return together
    return []


def _ticks(steps: Iterable[CommitGroup], tick_ms: int) -> Iterator[list[CommitGroup]]:
    """The steps that share a T."""
    tick: list[CommitGroup] = []
    newest_ms = interval = -1
    for step in steps:
        newest_ms = max(newest_ms, *(c.time_ms for c in step))
        if tick and (not tick_ms or newest_ms // tick_ms != interval):
            yield tick
            tick = []
        tick.append(step)
        interval = newest_ms // tick_ms if tick_ms else -1
    if tick:
        yield tick


def candidates_of(
    source: str, name: str, commits: Sequence[Commit], reshaping: Collection[int] = ()
) -> list[UnboundCommit]:
    """The candidates among consecutive commits of a source's log.

    Commits that change no row are left out, except parts of transactions and versions that reshape
    rows. An undone transaction is left out too, with the commits that undid it. A foreign commit
    between the two is bound to the version that undid the part, the first without its rows.
    """
    undone_groups = {c.metadata[UNDOES] for c in commits if UNDOES in c.metadata}
    candidates: list[UnboundCommit] = []
    floor = 0
    undoing = waits = False
    for commit in commits:
        is_change = commit.changes_data or commit.version in reshaping
        floor = max(commit.time_ms, floor + 1)  # the times of files may decrease; Ts may not
        group = commit.metadata.get(TRANSACTION)
        if group in undone_groups:
            undoing = True
        elif UNDOES in commit.metadata:
            if waits:
                candidates.append(UnboundCommit(floor, name, commit.version, source))
            undoing = waits = False
        elif is_change and undoing:
            waits = True
        elif is_change or group is not None:  # a part without rows may hold a writer's position
            candidates.append(UnboundCommit(floor, name, commit.version, source, group))
    return candidates
